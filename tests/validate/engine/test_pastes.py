"""Pasted texts: each form is told apart, read, and refused with the one thing that it lacks.

The samples are in the forms of the tools' own documentation and threads: the tables of llama-bench's and
llama-batched-bench's READMEs, the lines of ggml-org/llama.cpp#24536 and #22673, and a block of vLLM's client.
"""

import re

import pytest

from perfmodel.validate.engine.formats import read_pasted
from perfmodel.validate.engine.pastes import PromptTiming, form_of, text_forms
from perfmodel.validate.engine.timing import GivenFacts
from tests.refusals import refused
from tests.validate.engine.pasting import NAMES, sample


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
        # 128 blocks of 32 tokens hold 4 requests; 14 of 24 drafted tokens are accepted in 8 drafts of 3
        ("trtllm_iterations", {}, [(4, 1024, 3, 1 + 14 / 8, 0.0092)]),
        # the first and the last interval of each load are partly idle
        (
            "time_series",
            {"input": 800, "gamma": 3},
            [(8, 800.5, 3, 3.16, 3.16 * 8 / 1024), (1, 800.5, 3, 3.13, 3.13 / 200)],
        ),
        ("llama_progress", {}, [(1, 4072 + 100, 0, 1.0, 1 / 38.4)]),
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
        ("mlx_dspark", {"input": 60, "gamma": 7}, [(1, 60 + 100, 7, 3.12, 3.12 / 43.2)]),
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
        (
            "serving_part",
            {"batch": 8, "input": 1024, "output": 256},
            [(8, 1152, 3, 2.803, 2.803 * 0.0234)],
        ),
        ("sglang_send_one", {"input": 100, "gamma": 3}, [(1, 100 + 128, 3, 2.844, 2.844 / 212.4)]),
        ("ollama", {}, [(1, 812 + 320, 0, 1.0, 67.9 / 640)]),
        ("guidellm_table", {}, [(1, 1152, 0, 1.0, 0.0121), (8, 1152, 0, 1.0, 0.0188)]),
        # 512 tokens/s of 8 requests are 64 of each: the rate rises, so it is that of all
        ("concurrency_table", {}, [(1, 1152, 0, 1.0, 1 / 95.2), (8, 1152, 0, 1.0, 1 / 64)]),
        (
            "concurrency_lines",
            {"input": 1000},
            [
                (1, 1000.5, 3, 2.31, 2.31 * 0.0083),
                (8, 1000.5, 3, 2.29, 2.29 * 0.0099),
                (1, 1000.5, 0, 1.0, 0.0159),
                (8, 1000.5, 0, 1.0, 0.0171),
            ],
        ),
        # behind the prompt of the row above: of 2,048 tokens, of the 4,096 cached ones, and of both
        (
            "llama_benchy",
            {},
            [
                (1, 2048 + 16, 0, 1.0, 1 / 73.18),
                (1, 4096.5, 0, 1.0, 1 / 73.28),
                (1, 4096 + 2048 + 16, 0, 1.0, 1 / 72.25),
            ],
        ),
        ("llama_sweep_bench", {}, [(1, 64, 0, 1.0, 0.025), (1, 8192 + 64, 0, 1.0, 3.42 / 128)]),
        # an iteration gives 8 requests 2.79 tokens each
        (
            "sglang_one_batch_server",
            {"gamma": 3},
            [(1, 1024 + 128, 3, 2.81, 2.81 / 109.87), (8, 1152, 3, 2.79, 8 * 2.79 / 610.2)],
        ),
        ("metric_table", {}, [(8, 1152, 0, 1.0, 0.0096), (8, 1152, 3, 2.1, 2.1 * 0.0121)]),
        # 1.91 and 1 + 3 x 0.72 tokens per iteration
        (
            "draft_length_table",
            {},
            [(1, 640, 0, 1.0, 1 / 38), (1, 640, 1, 1.91, 1.91 / 52.4), (1, 640, 3, 3.16, 3.16 / 55.3)],
        ),
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
    assert all(t.how for t in timings), "a record says how each time was taken"


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("mtp_bench", ("", ""), r"-: input: must be stated, as in --from -,input=N"),
        ("mtp_bench", ("acc= 128", "acc= 999"), r"acc"),
        ("llama_server_log", ("    eval time", "    x"), r"eval time: must stand beside the acceptance"),
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
        ("concurrency_table", (" in / 256 out", ""), r"-: input: must be stated"),
        ("concurrency_lines", ("", ""), r"-: input: must be stated"),
        ("concurrency_lines", ("9.9ms", "0ms, input 1k"), r"-: TPOT: must be above 0"),
        ("concurrency_table", ("512", "64"), r"-: tok/s: must say whether it is of all requests or of one"),
        ("concurrency_table", ("512", "0"), r"-: tok/s: must be above 0"),
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
        ("trtllm_iterations", ("usedNumBlocks", "x"), r"-: input: must be stated, as in --from -,input=N"),
        (
            "trtllm_iterations",
            ('"numContextRequests":0', '"numContextRequests":1'),
            r"no iteration that decodes",
        ),
        ("trtllm_iterations", ('"numAcceptedTokens":8', '"numAcceptedTokens":80'), r"at most the 24 drafted"),
        ("trtllm_iterations", ('"iter"', '"x"'), r"iterLatencyMS: has no whole iteration"),
        ("trtllm_iterations", ('9.4,"kv', '"x","kv'), r"-: iterLatencyMS"),
        ("time_series", ("", ""), r"-: gamma: must be stated, as in --from -,gamma=N"),
        ("time_series", ("running requests", "x"), r"-: batch: must be stated, as in --from -,batch=N"),
        ("time_series", ("1024.0", "x"), r"-: generation tokens/s: must be a number"),
        ("llama_progress", ("prompt", "x"), r"-: input: must be stated"),
        ("llama_progress", ("38.40", "0"), r"-: tg: must be above 0"),
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
        ("mlx_dspark", ("40.1 tok/s", "40.1 tok/s"), r"-: gamma: must be stated"),
        ("mlx_lm", ("Prompt:", "x"), r"-: input: must be stated"),
        ("two_speeds", ("", ""), r"-: input: must be stated"),
        ("sglang_one_batch", ("Prefill. latency", "x"), r"-: input: must be stated"),
        ("sglang_one_batch", ("median latency: 0.00655", "median latency: 0.0"), r"median latency: must be"),
        ("serving_part", ("", ""), r"-: batch: must be stated, as in --from -,batch=N"),
        ("serving_part", ("23.40", "0"), r"TPOT \(ms\): must be above 0"),
        ("sglang_send_one", ("", ""), r"-: gamma: must be stated"),
        ("sglang_send_one", ("212.4", "0"), r"-: speed: must be above 0"),
        ("llama_benchy", ("73.18", "0"), r"-: t/s of tg32: must be above 0"),
        ("llama_benchy", ("pp2048 |", "x |"), r"-: input: must be stated"),
        ("llama_sweep_bench", ("3.200", "x"), r"-: T_TG s: must be a number"),
        ("sglang_one_batch_server", ("", ""), r"-: gamma: must be stated, as in --from -,gamma=N"),
        ("sglang_one_batch_server", ("109.87", "0"), r"-: output throughput: must be above 0"),
        ("draft_length_table", (" in / 256 out", ""), r"-: input: must be stated"),
        ("metric_table", (" in / 256 out", ""), r"-: input: must be stated"),
        ("ollama", ("1m7.9s", "1m7.9"), r"eval duration: must be a time such as 4.368s"),
        ("ollama", ("eval count:           640", "x"), r"eval count: must be above 0"),
    ],
)
def test_what_is_missing_or_impossible_is_one_line(name, change, says) -> None:
    given = GivenFacts(input=9) if change[0].startswith("acc=") else GivenFacts()
    refused(says, read_pasted, "-", sample(name).replace(*change), given)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("38.0", "0"), "-: tok/s: must be above 0"),
        (("0.72", "-"), "-: accepted: must be stated"),
        (("| acceptance |", "| accept len |"), "-: tokens per iteration: must be from 1 to"),
    ],
)
def test_a_table_of_draft_lengths_lacks_one_thing_at_a_time(change: tuple[str, str], says: str) -> None:
    refused(says, read_pasted, "-", sample("draft_length_table").replace(*change), GivenFacts(input=512))


@pytest.mark.parametrize(
    ("head", "cells", "steps"),
    [
        ("MTP n", ("no MTP", "n=1", "n=3"), [0, 1, 3]),
        ("num_speculative_tokens", ("0", "1", "3"), [0, 1, 3]),
        ("draft tokens", ("baseline", "1", "best"), [0, 1]),
    ],
)
def test_draft_lengths_have_several_names(head: str, cells: tuple[str, ...], steps: list[int]) -> None:
    table = sample("draft_length_table").replace("| n-max |", f"| {head} |")
    for old, new in zip(("| off |", "| 1 |", "| 3 |"), cells, strict=True):
        table = table.replace(old, f"| {new} |")
    assert [timing.gamma for timing in read_pasted("-", table, GivenFacts(input=512))] == steps


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("9.60 ms", "0"), "-: Median TPOT (ms) of Baseline: must be above 0"),
        (("9.60 ms", "-"), "-: Median TPOT (ms) of Baseline: must be a number"),
        (("Max concurrency", "Requests"), "-: batch: must be stated, as in --from -,batch=N"),
        ((" (n=3)", ""), "-: gamma: must be stated"),
        (("Accept length", "x"), "-: accepted: must be stated"),
    ],
)
def test_a_table_of_metrics_lacks_one_thing_at_a_time(change: tuple[str, str], says: str) -> None:
    table = sample("metric_table").replace(*change)
    refused(re.escape(says), read_pasted, "-", table, GivenFacts(input=1024))


def test_a_table_without_medians_has_means_and_shares() -> None:
    table = sample("metric_table").replace("Median TPOT", "x").replace("Accept length", "Acceptance rate (%)")
    alone, drafting = read_pasted("-", table.replace("| 2.1 |", "| 55 |"), GivenFacts(input=1024))
    assert (alone.seconds, drafting.tokens_per_iteration) == pytest.approx((0.00964, 2.65))


def test_the_line_before_a_block_says_whether_it_drafts() -> None:
    alone = sample("serving_block").partition("---------------Speculative")[0]
    text = f"Without MTP:\n{alone}\nWith MTP (n=2):\n{alone}"
    given = GivenFacts(accepted=2.0)
    assert [(t.gamma, t.tokens_per_iteration) for t in read_pasted("-", text, given)] == [(0, 1.0), (2, 2.0)]
    unstated = text.replace(" (n=2)", "")
    refused("gamma: must be stated", read_pasted, "-", unstated, given)
    both = text.replace("Without", "Slow, with")
    assert [t.gamma for t in read_pasted("-", both, GivenFacts(accepted=2.0, gamma=3))] == [3, 3]


def test_the_page_of_llama_cpp_shows_drafts_by_tokens_per_pass() -> None:
    page = sample("llama_metrics")
    more = page.replace("llamacpp:n_decode_total 4", "llamacpp:n_decode_total 1")
    assert more != page
    refused("-: gamma: must be stated", read_pasted, "-", more, GivenFacts(input=800))


def test_notes_name_what_a_comparison_cannot_know() -> None:
    slots = "slot print_timing: id  0 | task 1 | eval time = 100 ms / 11 tokens\n"
    slots += slots.replace("id  0", "id  1")
    form = form_of(slots)
    assert form.note(slots, GivenFacts()).startswith("2 slots answered")
    assert form.note(slots, GivenFacts(batch=2)) == ""
    assert form.note(slots.replace("id  1", "id  0"), GivenFacts()) == ""
    for name, note in (
        ("llama_sweep_bench", "ik_llama.cpp has kernels of its own"),
        ("one_line", "tabbyAPI"),
    ):
        assert form_of(sample(name)).note(sample(name), GivenFacts()).startswith(note)
    assert form_of(sample("llama_bench")).note(sample("llama_bench"), GivenFacts()) == ""
    table = "| n_cpu_moe | test | t/s |\n|---|---|---|\n| 20 | tg128 | 61.2 |"
    assert form_of(table).note(table, GivenFacts()).startswith("n_cpu_moe is 20, but the prediction has all")
    assert form_of("36.4 tok/s").note("36.4 tok/s", GivenFacts()) == ""


def test_rates_of_one_of_several_clients_of_llama_benchy() -> None:
    head = "| model | test | t/s (total) | t/s (req) | peak t/s | ttfr (ms) | est_ppt (ms) | e2e_ttft (ms) |"
    prompt = "| m | pp2048 (c2) | 7198.20 ± 5 | 4872.80 ± 12 | | 473.18 | 442.77 | 568.97 |"
    answer = "| m | tg32 (c2) | 111.27 ± 3.61 | 56.20 ± 1.27 | 115.25 | | | |"
    table = "\n".join((head, prompt, answer))
    (timing,) = read_pasted("-", table, GivenFacts())
    assert (timing.batch, timing.context, timing.seconds) == (2, 2064, pytest.approx(1 / 56.2))
    assert form_of(table).prompts("-", table) == []


def test_prompts_behind_cached_tokens_and_prompts_that_are_read_with_them() -> None:
    """llama-benchy caches the tokens before a prompt only if it times them too."""
    cached = sample("llama_benchy")
    form = form_of(cached)
    of_tables = []
    for table in (cached, "\n".join(line for line in cached.splitlines() if "ctx_" not in line)):
        of_tables.append([(prompt.tokens, prompt.cached) for prompt in form.prompts("-", table)])
    assert of_tables == [[(2048, 0), (4096, 0), (2048, 4096)], [(2048, 0), (2048 + 4096, 0)]]


def test_the_table_of_sglangs_server_has_no_warm_up() -> None:
    table = """
batch size: 8
input_len: 1024
output_len: 16
latency: 9.10 s
input throughput: 19052.31 tok/s
output throughput: 110.20 tok/s

Input lens: (1024,). Output lens: (256,).
| batch size | input len | latency (s) | input throughput (tok/s) | output throughput (tok/s) | acc length |
|-----------:|----------:|------------:|-------------------------:|--------------------------:|:-----------|
|          1 |      1024 |        2.51 |                  9021.10 |                    110.20 | n/a        |
"""
    (timing,) = read_pasted("-", table, GivenFacts())
    assert (timing.batch, timing.context, timing.gamma) == (1, 1024 + 128, 0)
    assert timing.seconds == pytest.approx(1 / 110.2)
    assert form_of(table).prompts("-", table) == [PromptTiming(1024, 0, 1024 / 9021.1)]


def test_a_column_with_a_draft_and_one_without_are_two_servers() -> None:
    table = "| users | baseline tok/s | MTP (n=2) tok/s |\n|---|---|---|\n| 1 | 95 | 160 |\n| 8 | 600 | 560 |"
    steps = read_pasted("-", table, GivenFacts(input=500, accepted=2.0))
    assert [(t.batch, t.gamma, t.seconds) for t in steps] == [
        (1, 0, pytest.approx(1 / 95)),
        (8, 0, pytest.approx(8 / 600)),
        (1, 2, pytest.approx(2 / 160)),
        (8, 2, pytest.approx(16 / 560)),
    ]
    unstated = table.replace(" (n=2)", "")
    refused("-: gamma: must be stated", read_pasted, "-", unstated, GivenFacts(input=500, accepted=2.0))


def test_a_column_beside_one_with_a_draft_is_the_baseline() -> None:
    """The acceptance is in the words around the table, or in a column."""
    table = "| users | TPOT | TPOT eagle3 (k=3) |\n|---|---|---|\n| 1 | 6.9 ms | 3.4 ms |\n\naccept len 2.4\n"
    expected = [(0, 1.0, pytest.approx(0.0069)), (3, 2.4, pytest.approx(2.4 * 0.0034))]
    steps = read_pasted("-", table, GivenFacts(input=500))
    assert [(t.gamma, t.tokens_per_iteration, t.seconds) for t in steps] == expected
    column = "| users | TPOT | TPOT eagle3 (k=3) | accept len |\n| 1 | 6.9 ms | 3.4 ms | 2.4 |\n"
    steps = read_pasted("-", column, GivenFacts(input=500))
    assert [(t.gamma, t.tokens_per_iteration, t.seconds) for t in steps] == expected


@pytest.mark.parametrize(
    ("head", "seconds"),
    [("tok/s per user", 1 / 64), ("total tok/s", 8 / 64), ("Output TPS (aggregate)", 8 / 64)],
)
def test_the_head_of_a_table_says_whose_rate_it_has(head: str, seconds: float) -> None:
    table = sample("concurrency_table").replace("| tok/s |", f"| {head} |").replace("512 tok/s", "64")
    _, eight = read_pasted("-", table, GivenFacts(input=9))
    assert eight.seconds == pytest.approx(seconds)


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


def test_prompts_of_a_csv_are_the_rows_without_generated_tokens() -> None:
    table = "\n".join(("n_prompt,n_gen,n_depth,avg_ns", "512,0,4096,2e9", "0,128,0,4e9", "512,128,0,6e9"))
    assert form_of(table).prompts("-", table) == [PromptTiming(512, 4096, 2.0)]


def test_a_row_of_a_csv_that_was_cut_off_is_passed_over() -> None:
    whole = sample("llama_bench_csv")
    head, *rows = whole.splitlines()
    for row in rows:
        cut = '","'.join(row.split('","')[: head.split(",").index("avg_ns")])
        pasted = f"{whole.rstrip()}\n{cut}"
        form = form_of(pasted)
        assert form.read("-", pasted, GivenFacts()) == form.read("-", whole, GivenFacts())
        assert form.prompts("-", pasted) == form.prompts("-", whole)
