"""Pasted texts: each form is told apart, read, and refused with the one thing that it lacks.

The samples are in the forms of the tools' own documentation and threads: the tables of llama-bench's and
llama-batched-bench's READMEs, the lines of ggml-org/llama.cpp#24536 and #22673, and a block of vLLM's client.
"""

import io
import json
import re
import sys
from pathlib import Path

import pytest

from perfmodel.cli import run
from perfmodel.validate.engine.formats import read_pasted
from perfmodel.validate.engine.pastes import PromptTiming, form_of, text_forms
from perfmodel.validate.engine.text import plain
from perfmodel.validate.engine.timing import GivenFacts
from tests.refusals import refused

SAMPLES = Path(__file__).parent / "pastes"
ASK = ["validate", "engine", "--model", "qwen3.6-27b", "--weights", "q4_k_m", "--hardware", "rtx-3090"]
NAMES = sorted(path.stem for path in SAMPLES.iterdir())


def sample(name: str) -> str:
    return (SAMPLES / f"{name}.txt").read_text(encoding="utf-8")


def test_every_form_has_a_sample_that_no_other_form_takes() -> None:
    assert {type(form).__module__.rpartition(".")[2] for form in text_forms()} == set(NAMES)
    for name in NAMES:
        takers = [type(form).__module__.rpartition(".")[2] for form in text_forms() if form.has(sample(name))]
        assert takers == [name]
    assert form_of("any other text | with a bar") is None


@pytest.mark.parametrize(
    ("name", "given", "steps"),
    [
        # batch, context, K, tokens per iteration, seconds: by hand from the samples
        ("llama_bench", {}, [(1, 64, 0, 1.0, 1 / 120.60), (1, 512 + 64, 0, 1.0, 1 / 116.71)]),
        ("llama_batched_bench", {}, [(1, 192, 0, 1.0, 3.079 / 128), (8, 192, 0, 1.0, 7.344 / 128)]),
        # 254 tokens, of which the first is the prompt's and 167 are accepted drafts
        ("llama_server_log", {}, [(1, 1520 + 253 / 2, 3, 253 / 86, 3.51148 / 86)]),
        (
            "mtp_bench",
            {"input": 200},
            [(1, 296, 3, 3.0, 192 / 54.4 / 64), (1, 229, 3, 58 / 19, 58 / 55.1 / 19)],
        ),
        # 256 tokens, of which 176 are accepted drafts; 320 drafted in 80 iterations
        ("llama_speculative", {}, [(1, 12 + 128, 4, 256 / 80, 4.31 / 80)]),
        ("llama_metrics", {"input": 800}, [(1, 800.5, 0, 1.0, 113.5 / 4200)]),
        ("trtllm_metrics", {"input": 800, "batch": 4}, [(4, 800.5, 0, 1.0, 157.2 / 39920)]),
        ("trtllm_log", {"input": 800}, [(4, 800.5, 0, 1.0, 0.00751)]),
        ("trtllm_bench", {}, [(3.9988, 512 + 128, 0, 1.0, 0.0072945)]),
        ("trtllm_bench", {"gamma": 2, "accepted": 2.0}, [(3.9988, 640, 2, 2.0, 2 * 0.0072945)]),
        (
            "one_line",
            {"input": 9},
            [(1, 811 + 210, 0, 1.0, 1 / 100), (1, 812 + 210, 0, 1.0, 1 / 70.12), (1, 9.5, 0, 1.0, 1 / 36.8)],
        ),
        ("serving_block", {}, [(8, 1024 + 128, 3, 2.5, 2.5 * 0.02)]),
        # 2.49 requests/s of 3.214 s each are 8 at once; the table has means alone
        ("genai_perf", {}, [(8, 1024 + 128, 0, 1.0, 0.01235)]),
        ("llama_bench_csv", {}, [(1, 64, 0, 1.0, 0.852707 / 128)]),
        ("lm_studio", {}, [(1, 26 + 129 / 2, 0, 1.0, 1 / 26.84)]),
        ("mlx_lm", {}, [(1, 512 + 128, 0, 1.0, 1 / 41.382)]),
        ("mlx_lm", {"gamma": 2, "accepted": 2.0}, [(1, 640, 2, 2.0, 2 / 41.382)]),
        (
            "two_speeds",
            {"input": 500, "gamma": 3, "accepted": 2.5},
            [(1, 500.5, 3, 2.5, 2.5 / 52), (1, 500.5, 0, 1.0, 1 / 33.5)],
        ),
        # 1221.37 x 0.00655 are 8 sequences; 8,192 prompt tokens are theirs together
        ("sglang_one_batch", {}, [(8, 1024.5, 0, 1.0, 0.00655)]),
        ("sglang_one_batch", {"output": 64}, [(8, 1024 + 32, 0, 1.0, 0.00655)]),
        ("ollama", {}, [(1, 812 + 320, 0, 1.0, 67.9 / 640)]),
        ("guidellm_table", {}, [(1, 1152, 0, 1.0, 0.0121), (8, 1152, 0, 1.0, 0.0188)]),
        (
            "guidellm_table",
            {"gamma": 2, "accepted": 2.0},
            [(1, 1152, 2, 2.0, 0.0242), (8, 1152, 2, 2.0, 0.0376)],
        ),
    ],
)
def test_the_steps_of_a_form(name, given, steps) -> None:
    timings = read_pasted("-", sample(name), GivenFacts(**given))
    assert [(t.batch, t.context, t.gamma, t.tokens_per_iteration, t.seconds) for t in timings] == [
        pytest.approx(step, rel=2e-3) for step in steps
    ]


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("mtp_bench", ("", ""), r"-: input: must be stated, as in --from -,input=N"),
        ("mtp_bench", ("acc= 128", "acc= 999"), r"acc"),
        ("llama_server_log", (" eval time", " x"), r"eval time: must stand beside the acceptance"),
        ("llama_server_log", ("259 generated", "100 generated"), r"at most the 100 generated tokens"),
        ("llama_server_log", ("0.805, 0.632", "0.632, 0.805"), r"rates from 0 to 1 that do not rise"),
        ("llama_bench", ("120.60", "x"), r"t/s of tg128"),
        ("guidellm_table", ("Prompt Tok/Req", "Prompt"), r"concurrent@1: input: must be stated"),
        ("guidellm_table", ("ITL (ms)", "x"), r"-: ITL \(ms\): must be in the tables"),
        (
            "guidellm_table",
            ("18|    0|    0", "18|    0|    3"),
            r"concurrent@1: Err: must be 0 failed requests",
        ),
        ("genai_perf", ("Inter Token Latency", "x"), r"-: inter token latency: must be printed"),
        ("genai_perf", ("Request Throughput", "x"), r"-: batch: must be stated, as in --from -,batch=N"),
        ("llama_speculative", ("n_accept ", "x "), r"n_accept: must stand beside n_drafted"),
        ("llama_speculative", ("n_accept  = 176", "n_accept  = 400"), r"at most n_drafted"),
        ("llama_metrics", ("", ""), r"-: input: must be stated, as in --from -,input=N"),
        ("llama_metrics", ("n_busy_slots", "x"), r"-: batch: must be stated, as in --from -,batch=N"),
        ("trtllm_metrics", ("", ""), r"-: batch: must be stated, as in --from -,batch=N"),
        ("trtllm_bench", ("Average time-per-output-token", "x"), r"run trtllm-bench with --streaming"),
        ("trtllm_bench", ("Number of requests", "x"), r"Number of requests: must stand in the report"),
        ("trtllm_log", ("", ""), r"-: input: must be stated, as in --from -,input=N"),
        ("trtllm_log", ("'num_ctx_tokens': 0", "'num_ctx_tokens': 9"), r"no iteration that decodes alone"),
        (
            "trtllm_log",
            ("'num_generation_tokens': 4", "'num_generation_tokens': 7"),
            r"no iteration that decodes",
        ),
        ("trtllm_log", ("'num_generation_tokens': 4", "'num_generation_tokens': 8"), r"-: accepted: must be"),
        ("whole_requests", ("", ""), r"times prompts and outputs together"),
        ("one_line", ("100.00T/s", "0T/s"), r"tokens per second: must be above 0"),
        ("lm_studio", ("26.84", "0"), r"tok/sec: must be above 0"),
        ("mlx_lm", ("Prompt:", "x"), r"-: input: must be stated"),
        ("two_speeds", ("", ""), r"-: input: must be stated"),
        ("sglang_one_batch", ("Prefill. latency", "x"), r"-: input: must be stated"),
        ("sglang_one_batch", ("median latency: 0.00655", "median latency: 0.0"), r"median latency: must be"),
        ("ollama", ("1m7.9s", "1m7.9"), r"eval duration: must be a time such as 4.368s"),
        ("ollama", ("eval count:           640", "x"), r"eval count: must be above 0"),
    ],
)
def test_what_is_missing_or_impossible_is_one_line(name, change, says) -> None:
    given = GivenFacts(input=9) if change[0].startswith("acc=") else GivenFacts()
    refused(says, read_pasted, "-", sample(name).replace(*change), given)


def test_a_metric_of_genai_perf_may_go_on_in_the_next_row() -> None:
    whole = sample("genai_perf")
    narrow = []
    for line in whole.splitlines():
        _, *cells = line.split("│")
        if "Latency (ms)" in line or "Throughput (per sec)" in line:
            empty = "│".join(" " * len(cell) for cell in cells[1:-1])
            name, last = cells[0].rstrip().rsplit(" ", 1)
            narrow += [line.replace(cells[0], name), f"│{last}│{empty}│"]
        else:
            narrow.append(line)
    assert len(narrow) > len(whole.splitlines())
    form = form_of(whole)
    assert form.read("-", "\n".join(narrow), GivenFacts()) == form.read("-", whole, GivenFacts())


def test_a_row_of_a_csv_that_was_cut_off_is_passed_over() -> None:
    whole = sample("llama_bench_csv")
    head, *rows = whole.splitlines()
    for row in rows:
        cut = '","'.join(row.split('","')[: head.split(",").index("avg_ns")])
        pasted = f"{whole.rstrip()}\n{cut}"
        form = form_of(pasted)
        assert form.read("-", pasted, GivenFacts()) == form.read("-", whole, GivenFacts())
        assert form.prompts("-", pasted) == form.prompts("-", whole)


def test_the_tables_of_newer_guidellm_have_several_lines_of_heads() -> None:
    """As `guidellm` 0.8.1 prints them, two columns of each table kept."""
    tables = """
|==============|========|========|
| Benchmark    | Input Tok      ||
| Strategy     | Per Req        ||
|              | Mdn    | p95    |
|--------------|--------|--------|
| concurrent@4 | 1024.0 | 1030.0 |
|==============|========|========|
Output, cut by hand
|==============|=======|=======|
| Benchmark    | Output Tok   ||
| Strategy     | Per Req      ||
|              | Mdn   | p95   |
|--------------|-------|-------|
| concurrent@4 | 256.0 | 256.0 |
|==============|=======|=======|

Request Latency Statistics (Completed Requests)
|==============|=============|=======|======|======|
| Benchmark    | TTFT               || ITL        ||
| Strategy     | ms                 || ms         ||
|              | Mean        | Mdn   | Mean | Mdn  |
|--------------|-------------|-------|------|------|
| concurrent@4 | 100.0 ± 2.0 | 99.0* | 12.2 | 12.1 |
|==============|=============|=======|======|======|
"""
    (timing,) = read_pasted("-", tables, GivenFacts())
    assert (timing.batch, timing.context, timing.seconds, timing.ttft_s) == (4, 1152, 0.0121, 0.099)


def pasted(monkeypatch, capsys, text: str, *more: str) -> tuple[int, str]:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    status = run([*ASK, *more])
    captured = capsys.readouterr()
    return status, " ".join((captured.out + captured.err).split())


def test_standard_input_is_told_compared_and_what_is_missing_is_said(monkeypatch, capsys) -> None:
    log = sample("llama_server_log")
    status, out = pasted(monkeypatch, capsys, log, "--draft", "mtp", "--from", "-")
    assert status == 0
    assert "read: log of llama.cpp's server" in out
    assert "B=1 S=1646 K=3: 41 ms per iteration, 2.94 tokens per iteration; predicted" in out
    assert "prompt of 1520 tokens: 1.8 s; predicted" in out
    assert "missing for a calibration: must hold two draft lengths or more" in out


def test_a_file_of_printed_text_is_described_as_standard_input_is(monkeypatch, tmp_path, capsys) -> None:
    path = tmp_path / "bench.txt"
    path.write_text(sample("llama_bench"))
    _, of_file = pasted(monkeypatch, capsys, "", "--from", str(path))
    _, of_input = pasted(monkeypatch, capsys, sample("llama_bench"), "--from", "-")
    assert of_file == of_input
    assert "prompt of 512 tokens behind 512 cached: 80 ms" in of_file


def test_the_older_line_of_llama_cpp_tells_the_draft_length_too(monkeypatch, tmp_path, capsys) -> None:
    older = (
        sample("llama_server_log")
        .partition(", mean acceptance")[0]
        .replace("acceptance =", "acceptance rate =")
    )
    (tmp_path / "log").write_text(older)
    status, out = pasted(
        monkeypatch, capsys, "", "--watch", str(tmp_path / "log"), "--draft", "mtp", "--engine", "llamacpp"
    )
    assert status == 0
    assert "2.94 tokens per iteration" in out
    assert "health: healthy: measured 14 ms per token" in out


def test_a_block_without_acceptance_takes_the_published_one_and_says_so(monkeypatch, capsys) -> None:
    block = sample("serving_block")
    plain = "\n".join(
        line for line in block.splitlines() if "cceptance" not in line and "osition" not in line
    )
    plain = "\n".join(line for line in plain.splitlines() if "raft" not in line)
    ask = ["--model", "qwen3-32b", "--hardware", "h100", "--tp", "2", "--draft", "eagle3", "--gamma", "3"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(plain.encode())))
    assert run(["validate", "engine", *ask, "--from", "-"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "acceptance is not in the text; taken: 2.26 tokens per iteration at K = 3 (RedHatAI" in out
    assert "K=3: 45 ms per iteration, 2.26 tokens per iteration" in out


def test_a_block_without_drafts_beside_one_with_them_is_the_baseline(monkeypatch, capsys) -> None:
    block = sample("serving_block")
    alone = block.partition("---------------Speculative")[0]
    given = [*ASK, "--draft", "mtp", "--gamma", "3", "--from", "-"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{alone}{block}".encode())))
    assert run(given) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "B=8 S=1152 baseline: 20 ms per iteration" in out
    assert "B=8 S=1152 K=3: 50 ms per iteration, 2.50 tokens per iteration" in out
    assert "measured 1.00 times the baseline" in out
    assert "acceptance is not in the text" not in out


def test_an_answer_that_counts_its_draft_keeps_its_acceptance_beside_one_that_does_not(
    monkeypatch, capsys
) -> None:
    shown = "32.14 tok/sec • 512 tokens • 0.45s to first token"
    text = f"{shown} • Accepted 320/480 draft tokens (66.7%)\n{shown}\n"
    given = ["--draft", "mtp", "--gamma", "3", "--from", "-,input=100,gamma=3"]
    _, out = pasted(monkeypatch, capsys, text, *given)
    assert "acceptance is not in the text; taken:" in out
    assert out.count("83 ms per iteration, 2.67 tokens per iteration") == 1  # 512 / 192 over 32.14


@pytest.mark.parametrize("name", ["serving_block", "llama_bench", "mlx_lm"])
def test_the_output_of_a_client_is_no_log_to_watch(monkeypatch, capsys, name: str) -> None:
    status, out = pasted(monkeypatch, capsys, "", "--watch", str(SAMPLES / f"{name}.txt"), "--draft", "mtp")
    assert status == 2
    assert f"is {form_of(sample(name)).title}; use --from" in out


def test_an_address_counters_and_anything_else(monkeypatch, capsys) -> None:
    status, out = pasted(monkeypatch, capsys, "http://127.0.0.1:1\n", "--from", "-")
    assert status == 2
    assert "127.0.0.1:1 cannot be reached" in out
    log = (SAMPLES.parent / "files" / "vllm-log-draft3.txt").read_text()
    _, out = pasted(monkeypatch, capsys, log, "--draft", "mtp", "--context", "600", "--from", "-")
    assert "read: counters of vllm" in out
    assert "K = 3" in out
    status, out = pasted(monkeypatch, capsys, "Dear all,\n", "--from", "-")
    assert status == 2
    assert "-: holds no benchmark known here: paste a log of vLLM" in out
    status, out = pasted(monkeypatch, capsys, " \n", "--from", "-")
    assert status == 2
    assert "--from -: must be a text on standard input, given nothing" in out


def test_other_lines_of_the_same_tools() -> None:
    """What LM Studio shows in its window, mlx-lm's benchmark, and a load that vLLM's client names first."""
    shown = "32.14 tok/sec • 512 tokens • 0.45s to first token • Stop reason: EOS Token Found"
    refused("-: input: must be stated", read_pasted, "-", shown, GivenFacts())
    (timing,) = read_pasted("-", shown, GivenFacts(input=100))
    assert (timing.context, timing.ttft_s) == (356, 0.45)
    assert timing.seconds == pytest.approx(1 / 32.14)
    drafting = f"{shown} • Accepted 320/480 draft tokens (66.7%)"
    (timing,) = read_pasted("-", drafting, GivenFacts(input=100))
    assert (timing.gamma, timing.tokens_per_iteration) == (3, 512 / 192)
    assert timing.seconds == pytest.approx(512 / 192 / 32.14)
    counted = f"{sample('lm_studio')}  Total Draft Tokens: 120\n  Accepted Draft Tokens: 69\n"
    (timing,) = read_pasted("-", counted, GivenFacts())
    assert (timing.gamma, timing.tokens_per_iteration) == (2, 129 / 60)
    benchmark = (
        "Timing with prompt_tokens=1024, generation_tokens=256, batch_size=4.\n"
        "Trial 1:  prompt_tps=1201.331, generation_tps=161.022, peak_memory=9.812\n"
        "Averages: prompt_tps=1201.720, generation_tps=160.000, peak_memory=9.812\n"
    )
    (timing,) = read_pasted("-", benchmark, GivenFacts())
    assert (timing.batch, timing.context, timing.seconds) == (4, 1152, 4 / 160)
    block = sample("serving_block")
    at_once = next(line for line in block.splitlines() if "request concurrency" in line)
    text = f"Burstiness factor: 1.0\nMaximum request concurrency: 8\n{block.replace(at_once, '')}"
    (timing,) = read_pasted("-", text, GivenFacts())
    assert timing.batch == 8
    lacking = text.replace("Maximum request concurrency: 8", "")
    (timing,) = read_pasted("-", lacking, GivenFacts())
    assert timing.batch == 7.7, "(8192 - 32) tokens x 20.4 ms over 21.5 s"
    lacking = lacking.replace("Mean TPOT", "x")
    refused("-: batch: must be stated, as in --from -,batch=N", read_pasted, "-", lacking, GivenFacts())


def test_the_eval_rate_of_ollama_alone_is_a_speed() -> None:
    alone = "prompt eval rate:     193.33 tokens/s\neval rate:            40.00 tokens/s\n"
    refused("-: input: must be stated", read_pasted, "-", alone, GivenFacts())
    (timing,) = read_pasted("-", alone, GivenFacts(input=100))
    assert (timing.batch, timing.gamma, timing.seconds) == (1, 0, 0.025)
    refused(
        "-: eval rate: must be above 0", read_pasted, "-", alone.replace("40.00", "0"), GivenFacts(input=1)
    )


def test_an_answer_of_llama_cpp_tells_the_draft_length_as_its_log_does() -> None:
    counts = {
        "prompt_n": 512,
        "predicted_n": 301,
        "predicted_ms": 6100,
        "draft_n": 330,
        "draft_n_accepted": 190,
    }
    (timing,) = read_pasted("-", json.dumps({"timings": counts}), GivenFacts())
    assert (timing.gamma, timing.tokens_per_iteration) == (3, 300 / 110)
    (given,) = read_pasted("-", json.dumps({"timings": counts}), GivenFacts(gamma=4))
    assert given.gamma == 4


def test_accepted_tokens_stay_within_a_draft_length_that_was_rounded_down() -> None:
    """Ten iterations accept 35 drafted tokens: drafts of 3, and 4 tokens an iteration, not 4.5."""
    counts = {"prompt_n": 512, "predicted_n": 46, "predicted_ms": 1000}
    answer = json.dumps({"timings": counts | {"draft_n": 35, "draft_n_accepted": 35}})
    shown = "30 tok/sec • 45 tokens • 0.45s to first token • Accepted 35/35 draft tokens"
    for text in (answer, shown):
        (timing,) = read_pasted("-", text, GivenFacts(input=512))
        assert (timing.gamma, timing.tokens_per_iteration) == (3, 4.0)


def test_the_prompt_of_one_sequence_alone_is_timed_by_itself() -> None:
    lines = "Prefill. latency: 0.05 s, throughput: {:.1f} token/s\n"
    lines += "Decode.  median latency: 0.005 s, median throughput: {:.1f} token/s\n"
    one, eight = (lines.format(batch * 20480, batch * 200) for batch in (1, 8))
    assert form_of(one).prompts("-", one + eight) == [PromptTiming(1024, 0.0, 0.05)]


def test_a_text_of_llama_cpp_is_compared_with_llama_cpp(monkeypatch, capsys) -> None:
    """Without weights, which would say so too."""
    ask = ["validate", "engine", "--model", "qwen3-8b", "--hardware", "rtx-4090", "--from", "-"]
    printed = []
    for more in ([], ["--engine", "llamacpp"], ["--engine", "vllm"]):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(sample("llama_bench").encode())))
        assert run([*ask, *more]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    assert printed[0] != printed[2]


def test_colours_container_names_and_decimal_commas_change_nothing(monkeypatch, capsys) -> None:
    plain = sample("llama_bench")
    german = re.sub(r"(\d)\.(\d+ ±) (\d+)\.(\d)", r"\1,\2 \3,\4", plain)
    coloured = "\n".join(f"bench-1  | \x1b[32m{line}\x1b[0m" for line in plain.splitlines())
    assert "," in german
    _, expected = pasted(monkeypatch, capsys, plain, "--from", "-")
    assert pasted(monkeypatch, capsys, german, "--from", "-")[1] == expected
    assert pasted(monkeypatch, capsys, coloured, "--from", "-")[1] == expected


def test_a_log_line_that_begins_with_a_date_in_brackets_is_no_json(monkeypatch, capsys) -> None:
    status, out = pasted(monkeypatch, capsys, "[2026-01-11 10:00:01] The server is fired up\n", "--from", "-")
    assert status == 2
    assert "holds no benchmark known here" in out


def test_the_speed_of_whole_requests_of_vllm_is_refused_with_what_to_run(monkeypatch, capsys) -> None:
    line = "Processed prompts: 100%| 8/8 [00:10<00:00, est. speed input: 51.20 toks/s, output: 63.21 toks/s]"
    status, out = pasted(monkeypatch, capsys, line, "--from", "-")
    assert status == 2
    assert "times prompts and outputs together: `vllm bench serve`" in out


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("baseline: 33 t/s\nMTP n=2: 52.1 t/s\nMTP n=4: 47 t/s", [0, 3, 3]),
        ("I get 128 tokens/s with speculative decoding on, and 342 tokens/s without it: ", None),
        ("I get, with speculative decoding, 128 tokens/s, and without it 342 tokens/s.", [3, 0]),
        ("no draft 20.5 tok/s, draft 14.2 tok/s", [0, 3]),
        ("Prompt: 300 tok/s, output: 30 tok/s", None),
        ("Baseline 33 tok/s without MTP; 52 tok/s with MTP; 45 tok/s with n=4", None),
    ],
)
def test_two_speeds_are_told_apart_by_the_words_before_them(text: str, kinds: list[int] | None) -> None:
    form = form_of(text)
    if kinds is None:
        assert form is None
        return
    steps = read_pasted("-", text, GivenFacts(input=500, gamma=3, accepted=2.0))
    assert [timing.gamma for timing in steps] == kinds


def test_speeds_in_a_long_text_are_no_comparison() -> None:
    speeds = sample("two_speeds")
    assert form_of(f"{speeds}{' ' * (1000 - len(speeds))}") is not None
    assert form_of(f"{speeds}{' ' * (1001 - len(speeds))}") is None


def test_two_speeds_take_the_published_acceptance(monkeypatch, capsys) -> None:
    given = ["--draft", "mtp", "--gamma", "3", "--from", "-,input=500"]
    status, out = pasted(monkeypatch, capsys, sample("two_speeds"), *given)
    assert status == 0
    assert "acceptance is not in the text; taken:" in out
    assert "B=1 S=500 K=3: measured 1.55 times the baseline, predicted" in out


def test_a_speed_alone_is_compared(monkeypatch, capsys) -> None:
    assert "input: must be stated" in pasted(monkeypatch, capsys, "36.4 tok/s\n", "--from", "-")[1]
    status, out = pasted(monkeypatch, capsys, "36.4 tok/s\n", "--from", "-,input=500")
    assert status == 0
    assert "B=1 S=500 baseline: 27 ms per iteration; predicted" in out


def test_a_named_draft_that_a_text_does_not_count_is_said(monkeypatch, capsys) -> None:
    _, out = pasted(monkeypatch, capsys, sample("lm_studio"), "--draft", "mtp", "--from", "-")
    assert "the text counts no draft, so it is compared with decoding without one; if mtp drafted" in out
    _, plain = pasted(monkeypatch, capsys, sample("lm_studio"), "--from", "-")
    assert "counts no draft" not in plain


def test_the_first_token_of_a_lone_request_is_no_load(monkeypatch, capsys) -> None:
    _, out = pasted(monkeypatch, capsys, sample("lm_studio"), "--from", "-")
    assert "the first token takes 237 ms, a prompt alone" in out
    assert "the load is off" not in out


@pytest.mark.parametrize(
    ("line", "tokens_per_s", "context"),
    [
        ("Generation: 36.4 t/s", 36.4, 500.5),
        ("tg 36.4 tokens per second", 36.4, 500.5),
        ("INFO: Chat completion: 256 tokens in 5.61s (45.6 tok/s)", 45.6, 500 + 128),
        ("[server] generated 412 tokens in 9.8 seconds, 42.0 tokens/s, stop", 42.0, 500 + 206),
    ],
)
def test_a_speed_with_its_name_or_its_tokens_is_read(line: str, tokens_per_s: float, context: float) -> None:
    (timing,) = read_pasted("-", line, GivenFacts(input=500))
    assert timing.seconds == pytest.approx(1 / tokens_per_s)
    assert timing.context == context


def test_the_speed_of_a_prompt_alone_is_no_step() -> None:
    assert form_of("Prompt: 812.3 t/s") is None
    assert form_of("pp 812.3 t/s") is None


PREFIXES = {
    "a quotation": "> ",
    "a container": "vllm-1  | ",
    "a time": "2026-11-02T10:00:00.123Z ",
    "a journal": "Nov 02 10:00:00 host vllm[12]: ",
    "a block of code": "    ",
}
"""What puts it there -> what stands before every line."""


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("prefix", PREFIXES.values(), ids=PREFIXES)
def test_what_stands_before_every_line_changes_nothing(name: str, prefix: str) -> None:
    lines = plain(sample(name)).splitlines()
    assert plain("\n".join(f"{prefix}{line}" for line in sample(name).splitlines())).splitlines() == lines
    assert plain(f"```text\n{sample(name)}```").splitlines() == lines


def test_a_slow_answer_names_the_iteration_and_the_signs_of_the_text(monkeypatch, capsys) -> None:
    log = sample("llama_server_log").replace("3511.48 ms", "9511.48 ms")
    log = f"load_tensors: offloaded 40/66 layers to GPU\n{log}"
    _, out = pasted(monkeypatch, capsys, log, "--draft", "mtp", "--from", "-")
    assert "times as long: the iteration is off" in out
    assert "seen in the text: 26 of 66 layers run on the host" in out


def test_a_rejected_draft_names_the_acceptance(monkeypatch, capsys) -> None:
    rates = {"167 accepted": "17 accepted", "0.805, 0.632, 0.483": "0.090, 0.060, 0.047"}
    log = sample("llama_server_log").replace("254 tokens", "104 tokens")
    for old, new in rates.items():
        log = log.replace(old, new)
    _, out = pasted(monkeypatch, capsys, log, "--draft", "mtp", "--from", "-")
    assert "the acceptance is off: 1.20 tokens per iteration, expected" in out


def test_a_baseline_beside_a_draft_gives_the_measured_speedup(monkeypatch, capsys) -> None:
    drafting = sample("llama_server_log")
    alone = "       eval time =    5512.01 ms /   200 tokens (   27.56 ms per token)\n"
    baseline = f"prompt eval time =     312.22 ms /   320 tokens\n{alone}"
    _, out = pasted(monkeypatch, capsys, f"{drafting}\n{baseline}", "--draft", "mtp", "--from", "-")
    # 2.94 tokens in 40.8 ms, and one in 27.7 ms
    assert "measured 2.00 times the baseline, predicted" in out


def test_devices_in_turn_and_host_memory_are_part_of_the_prediction(monkeypatch, capsys) -> None:
    log = sample("llama_server_log")
    _, alone = pasted(monkeypatch, capsys, log, "--draft", "mtp", "--from", "-", "--engine", "llama.cpp")
    _, by_host = pasted(
        monkeypatch,
        capsys,
        log,
        "--draft",
        "mtp",
        "--from",
        "-",
        "--gpu-layers",
        "40",
        "--host-bandwidth",
        "80",
    )
    alone_ms, by_host_ms = (float(re.search(r"predicted (\d+) ms", out)[1]) for out in (alone, by_host))
    assert by_host_ms > 1.5 * alone_ms
    _, refused_line = pasted(monkeypatch, capsys, log, "--draft", "mtp", "--from", "-", "--gpu-layers", "40")
    assert "--gpu-layers: needs --host-bandwidth" in refused_line


def test_a_power_limit_is_part_of_the_prediction(monkeypatch, capsys) -> None:
    ask = ["validate", "engine", "--model", "qwen3.8-27b", "--weights", "q4_k_m", "--hardware", "rtx-5090"]
    predicted_ms = []
    for more in ([], ["--power-limit", "400"]):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(sample("llama_server_log").encode())))
        assert run([*ask, *more, "--draft", "mtp", "--from", "-"]) == 0
        out = " ".join(capsys.readouterr().out.split())
        predicted_ms.append(float(re.search(r"predicted (\d+) ms", out)[1]))
    assert predicted_ms[1] > predicted_ms[0]
