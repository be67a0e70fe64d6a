"""A running server's counters against the length that it serves: single answers are the oracle."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from perfmodel.answers.point.whatif import whatif
from perfmodel.answers.question import Query
from perfmodel.cli import run
from perfmodel.specs.acceptance.acceptance_library import acceptance_library
from perfmodel.speculation import Acceptance
from perfmodel.validate.engine.acceptance.prometheus import samples, since
from perfmodel.validate.engine.running_requests import running
from perfmodel.validate.engine.served_counts import ServedCounts
from perfmodel.validate.engine.watch import TOLERANCE, command, drift
from tests.refusals import refused
from tests.validate.engine.server import HEAD, NOT_FOUND, serving_bytes

ASK = ["--model", "llama-3.1-8b", "--hardware", "h100", "--draft", "eagle3"]
DRAFTED = {"num_drafts": 10000, "num_draft_tokens": 30000}
REACHED = (7400, 4900, 2700)
PROMPTS = ((1000, 0), (2000, 400))
ANSWERS = ((50, 0), (100, 400))


def page(batch: int, times: int = 1) -> str:
    """2.5 tokens per iteration at K = 3, prompts of 1000 to 2000 tokens (mean 1500), answers of 75."""
    text = "# TYPE vllm:num_requests_running gauge\n"
    text += f'vllm:num_requests_running{{engine="0"}} {batch}\n'
    for name, count in DRAFTED.items():
        text += f"vllm:spec_decode_{name}_total {times * count}\n"
    for j, n in enumerate(REACHED):
        text += f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{position="{j}"}} {times * n}\n'
    for name, bounds, mean in (("prompt", PROMPTS, 1500), ("generation", ANSWERS, 75)):
        metric = f"vllm:request_{name}_tokens"
        for most, count in bounds:
            text += f'{metric}_bucket{{le="{most}"}} {times * count}\n'
        text += f"{metric}_sum {times * 400 * mean}\n{metric}_count {times * 400}\n"
    return text


@pytest.mark.parametrize("batch", [4, 12, 64, 220])
def test_a_length_holds_where_no_other_is_faster(tmp_path, capsys, batch) -> None:
    page_path = str(tmp_path / "now.txt")
    rows_path = str(tmp_path / "rows.json")
    (tmp_path / "now.txt").write_text(page(batch))
    status = run(["validate", "engine", "--watch", page_path, *ASK])
    out = " ".join(capsys.readouterr().out.split())
    imported = ["validate", "acceptance", "--import", page_path, "--target", "llama-3.1-8b"]
    assert run([*imported, "--draft", "eagle3", "--gamma", "3", "--out", rows_path]) == 0
    question = {"batch": batch, "context": 1538, "draft": "eagle3", "acceptance": rows_path}
    answers = [whatif("llama-3.1-8b", "h100", gamma=gamma, **question) for gamma in range(4)]
    speed = [answer.speedup or 0.0 for answer in answers]
    fastest = max(speed)
    holds = speed[3] * (1 + TOLERANCE) >= fastest
    assert status == (0 if holds else 1)
    printed = Path(__file__).with_name("watch.txt").read_text(encoding="utf-8")
    assert out in " ".join(printed.split())
    assert f"speculation pays off from {2.5 / speed[3]:.2f} on" in out
    best = f"change: K = {speed.index(fastest)} ({fastest:.2f}x) is faster than K = 3"
    assert (best in out) == (not holds)


def test_two_pages_are_what_was_served_between_them(tmp_path, capsys) -> None:
    before = page(3)
    now = page(12, times=3)
    text = since(before, now)
    assert [value for _, value in samples("x", text, "vllm:spec_decode_num_drafts")] == [20000]
    assert running("x", text) == 12, "a gauge is as it is now"
    for name, each in (("a", before), ("b", now)):
        (tmp_path / name).write_text(each)
    twice = [word for name in "ab" for word in ("--watch", str(tmp_path / name))]
    assert run(["validate", "engine", *twice, *ASK]) == 0
    assert "12 running, at 1538 tokens of context; 2.50 tokens" in " ".join(capsys.readouterr().out.split())
    assert since(now, before) == before, "a server that was restarted counts from 0"
    created = "# TYPE vllm:x_created gauge\nvllm:x_created {}\n{}"
    first = created.format(1, before)
    second = created.format(2, now)
    assert since(first, second) == second, "even if it has counted more since then"


def test_pages_that_say_nothing_are_refused(tmp_path, capsys) -> None:
    path = tmp_path / "a"
    path.write_text(page(3))
    watched = ["--watch", str(path)]
    assert run(["validate", "engine", *watched * 2, *ASK]) == 2
    assert "counts no draft" in capsys.readouterr().err
    assert run(["validate", "engine", *watched * 3, *ASK]) == 2
    assert "given once, or twice" in capsys.readouterr().err
    assert run(["validate", "engine", *watched, *ASK, "--context", "1k,200k"]) == 2
    assert "--context: must be at most 131072, the longest of llama-3.1-8b" in capsys.readouterr().err


def test_a_running_server_is_read_at_its_url(tmp_path, capsys) -> None:
    saved = tmp_path / "page"
    saved.write_text(page(12))
    assert run(["validate", "engine", "--watch", str(saved), *ASK]) == 0
    of_file = capsys.readouterr().out

    def metrics(path: str, *_: bytes) -> Iterator[bytes]:
        yield HEAD + page(12).encode() if path == "/metrics" else NOT_FOUND

    with serving_bytes(metrics) as url:
        assert run(["validate", "engine", "--watch", url, *ASK]) == 0
        assert capsys.readouterr().out == of_file


def test_a_server_without_metrics_is_refused(capsys) -> None:
    with serving_bytes(lambda *_: iter([NOT_FOUND])) as url:
        assert run(["validate", "engine", "--watch", url, *ASK]) == 2
    assert capsys.readouterr().err == f"error: --watch: {url} has no page /metrics\n"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--watch", "ftp://x"], "error: --watch: must be http://HOST:PORT"),
        (
            ["--watch", "http://127.0.0.1:1"],
            "error: --watch: http://127.0.0.1:1 cannot be reached or breaks off at /metrics: All connection",
        ),
        (["--watch", "page", "--plan"], "error: --watch: must be left out with --plan"),
        (["--watch", "page", "--url", "http://h:1"], "error: --watch: must be left out with --url"),
        (["--watch", "page", "--from", "x.json"], "error: --watch: must be left out with --from"),
    ],
)
def test_refusals_name_the_flag(words, says, capsys) -> None:
    assert run(["validate", "engine", *words, *ASK]) == 2
    assert capsys.readouterr().err.startswith(says)


def test_lengths_up_to_sixteen_are_compared() -> None:
    query = Query("llama-3.1-8b", "h100", 4, 1538, draft="eagle3")
    served = ServedCounts(16, Acceptance.from_alpha(0.7), 1538.0, 4.0)
    assert drift(query, served).best < 16
    refused("--gamma: must be at most 16", drift, query, replace(served, gamma=17))


@pytest.mark.parametrize(
    ("draft", "context", "alpha", "best"),
    [
        # 4 draft tokens would be faster if their acceptance stayed at 0.7
        ({"draft": "eagle3"}, 8192, 0.7, 3),
        ({"draft": "self", "draft_kv": "snapkv:1k"}, 32768, 0.9, 4),
    ],
)
def test_after_the_last_counted_position_the_acceptance_of_a_head_falls(draft, context, alpha, best) -> None:
    """The best length and its speedup are those of the rates that follow. Those of a self-draft are equal."""
    query = Query("llama-3.1-8b", "h100", 64, context, **draft)
    counted = Acceptance.from_alpha(alpha).replace(measured_to=2)
    answer = drift(query, ServedCounts(2, counted, float(context), 64.0))
    decay = 1.0 if query.draft == "self" else acceptance_library().typical.decay("eagle3")
    rates = [alpha, alpha, alpha * decay, alpha * decay**2]
    by_rates = drift(query, ServedCounts(2, Acceptance.from_positions(rates), float(context), 64.0))
    assert answer == by_rates
    assert answer.best == best


@pytest.mark.parametrize(("running", "most"), [(4, 256), (300, 300)])
def test_the_range_of_good_batches_ends_at_256_or_at_the_present_batch(running, most) -> None:
    query = Query("llama-3.1-8b", "h100", 4, 8192, draft="eagle3")
    served = ServedCounts(2, Acceptance.from_positions([0.8, 0.7]), 8192.0, running)
    assert f"with 1 to {most} requests at this context" in drift(query, served).lines[1]


def test_a_server_that_counts_no_positions_is_asked_for_with_its_tokens_per_iteration() -> None:
    """1 + 0.5 + 0.25 + 0.125 tokens."""
    counted = ServedCounts(3, Acceptance.from_alpha(0.5), 1538.0, None)
    line = command(Query("m", "h100", 1, 1), counted, ["--tp", "2"])
    assert line.endswith("--draft self --tokens-per-iteration 1.88 --gamma 3 --context 1538 --tp 2")


def vllm_lines(*running: int) -> str:
    """One line each; the newest version's names and, at the end, those of version 0."""
    pace = "Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 90.0 tokens/s"
    lines = [f"{pace}, Running: {count} reqs, Waiting: 0 reqs" for count in running]
    oldest = lines.pop().replace("Waiting", "Swapped: 0 reqs, Pending")
    return "\n".join([*lines, oldest])


def test_running_requests_of_a_log() -> None:
    """The first and the last line of a load are partly idle."""
    assert running("x", vllm_lines(1, 4, 6, 2, 0)) == 5
    assert running("x", vllm_lines(1, 4, 1, 0, 2, 8, 3)) == 6
    assert running("x", vllm_lines(0, 2, 4)) == 3
    assert running("x", "Decode batch, #running-req: 8, gen throughput (token/s): 90.0") == 8
    assert running("x", "nothing") is None


def test_running_requests_of_a_page() -> None:
    counts = "vllm:inter_token_latency_seconds_count 6708\nvllm:iteration_tokens_total_count 648\n"
    # 648 iterations of a vLLM 0.32, with 8 requests of 4 clients and 42 of 14; fewer; and without iterations
    fewer = counts.replace("6708", "600")
    without = counts.split("vllm:iter")[0]
    for text, expected in ((counts, 10.35), (fewer, 1), (without, 3)):
        assert running("x", page(3) + text) == pytest.approx(expected, abs=0.01)
