"""A running server's counters against the length that it serves: single answers are the oracle."""

from pathlib import Path

import pytest

from perfmodel.answers.point.whatif import whatif
from perfmodel.answers.question import Query
from perfmodel.cli import run
from perfmodel.speculation import Acceptance
from perfmodel.validate.engine.acceptance.prometheus import samples, since
from perfmodel.validate.engine.watch import TOLERANCE, Served, command, running

ASK = ["--model", "llama-3.1-8b", "--hardware", "h100", "--draft", "eagle3"]
DRAFTED = {"num_drafts": 10000, "num_draft_tokens": 30000}
REACHED, PROMPTS, ANSWERS = (7400, 4900, 2700), ((1000, 0), (2000, 400)), ((50, 0), (100, 400))


def page(batch: int, times: int = 1) -> str:
    """2.5 tokens per iteration at K = 3, prompts of 1000 to 2000 tokens (mean 1500), answers of 75."""
    text = "# TYPE vllm:num_requests_running gauge\n"
    text += f'vllm:num_requests_running{{engine="0"}} {batch}\n'
    text += "".join(f"vllm:spec_decode_{name}_total {times * n}\n" for name, n in DRAFTED.items())
    for j, n in enumerate(REACHED):
        text += f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{position="{j}"}} {times * n}\n'
    for name, bounds, mean in (("prompt", PROMPTS, 1500), ("generation", ANSWERS, 75)):
        metric = f"vllm:request_{name}_tokens"
        text += "".join(f'{metric}_bucket{{le="{le}"}} {times * n}\n' for le, n in bounds)
        text += f"{metric}_sum {times * 400 * mean}\n{metric}_count {times * 400}\n"
    return text


@pytest.mark.parametrize("batch", [4, 12, 64, 220])
def test_a_length_holds_where_no_other_is_faster(tmp_path, capsys, batch) -> None:
    (tmp_path / "now.txt").write_text(page(batch))
    status = run(["validate", "engine", "--watch", str(tmp_path / "now.txt"), *ASK])
    out = " ".join(capsys.readouterr().out.split())
    question = {"batch": batch, "context": 1538, "draft": "eagle3", "acceptance": str(tmp_path / "rows.json")}
    imported = ["validate", "acceptance", "--import", str(tmp_path / "now.txt"), "--target", "llama-3.1-8b"]
    assert run([*imported, "--draft", "eagle3", "--gamma", "3", "--out", question["acceptance"]]) == 0
    speed = [whatif("llama-3.1-8b", "h100", gamma=k, **question).speedup or 0.0 for k in range(4)]
    holds = speed[3] * (1 + TOLERANCE) >= max(speed)
    assert status == (0 if holds else 1)
    assert out in " ".join(Path(__file__).with_name("watch.txt").read_text(encoding="utf-8").split())
    assert f"speculation pays from {2.5 / speed[3]:.2f} on" in out
    best = f"change: K = {speed.index(max(speed))} ({max(speed):.2f}x) is faster than K = 3"
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
    started = [
        f"# TYPE vllm:x_created gauge\nvllm:x_created {at}\n{page}" for at, page in ((1, before), (2, now))
    ]
    assert since(*started) == started[1], "even if it has counted more since then"
    for again, says in ((["a", "a"], "counts no draft"), (["a", "a", "a"], "given once, or twice")):
        words = [word for name in again for word in ("--watch", str(tmp_path / name))]
        assert run(["validate", "engine", *words, *ASK]) == 2
        assert says in capsys.readouterr().err
    assert run(["validate", "engine", *words[:2], *ASK, "--context", "1k,200k"]) == 2
    assert "--context: must be at most 131072, the longest of llama-3.1-8b" in capsys.readouterr().err


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


def test_a_server_that_counts_no_positions_is_asked_for_with_its_one_rate() -> None:
    counted = Served(3, Acceptance.from_alpha(0.71), 1538.0, None)
    assert command(Query("m", "h100", 1, 1), counted, ["--tp", "2"]).endswith(
        "--draft self --rate 0.71 --context 1538 --tp 2"
    )


def vllm_lines(*running: int) -> str:
    """One line each; the newest version's names and, at the end, those of version 0."""
    pace = "Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 90.0 tokens/s"
    lines = [f"{pace}, Running: {count} reqs, Waiting: 0 reqs" for count in running]
    return "\n".join([*lines[:-1], lines[-1].replace("Waiting", "Swapped: 0 reqs, Pending")])


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
    for text, found in (
        (counts, 10.35),
        (counts.replace("6708", "600"), 1),
        (counts.split("vllm:iter")[0], 3),
    ):
        assert running("x", page(3) + text) == pytest.approx(found, abs=0.01)
