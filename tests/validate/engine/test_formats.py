"""Benchmark files: those that the programs wrote, and those in the formats of their sources (files/README.md)."""

import json
import statistics
from pathlib import Path
from typing import Any

import pytest
import yaml

from perfmodel.errors import InputError
from perfmodel.validate.engine.calibrate import differences
from perfmodel.validate.engine.formats import modules, read
from perfmodel.validate.engine.formats.fields import bunched
from perfmodel.validate.engine.text import parse_objects
from perfmodel.validate.engine.timing import Said, Timing

FILES = Path(__file__).parent / "files"


@pytest.mark.parametrize(("name", "said", "steps"), [
    # batch, context, K, tokens per iteration, seconds: by hand from the files
    ("vllm-serve-plain-1.json", {}, [(1, 512 + 32, 0, 1.0, 0.00802)]),
    ("vllm-serve-plain-2.json", {}, [(2, 512 + 32, 0, 1.0, 0.00799)]),
    ("vllm-serve-plain-4.json", {}, [(4, 512 + 32, 0, 1.0, 0.0078)]),
    ("vllm-serve-draft3-1.json", {}, [(1, 512 + 64, 3, 508 / 168, 0.01621)]),
    ("vllm-serve-ngram4-1.json", {}, [(1, 256 + 64, 4, 1 + 394 / 104, 0.00789)]),
    ("vllm-forward.json", {}, [(32, 8192, 0, 1.0, 0.0062105), (32, 8192, 3, 1.0, 0.006905)]),
    ("sglang-serving.jsonl", {}, [(8, 1024 + 128, 0, 1.0, 0.0175), (8, 1024 + 128, 3, 2.42, 2.42 * 0.0098)]),
    ("llama-bench.json", {}, [(1, 4096 + 64, 0, 1.0, 0.013)]),
    ("llama-batched-bench.jsonl", {}, [(1, 512 + 64, 0, 1.0, 0.0125), (8, 512 + 64, 0, 1.0, 0.01875)]),
    ("llama-server.jsonl", {"gamma": 3}, [(1, 612, 3, 2.0, 0.019), (1, 562, 3, 2.0, 0.0186)]),
    ("guidellm.json", {"gamma": 3, "accepted": 1.0}, [(1, 152, 3, 1.0, 0.02101), (2, 152, 3, 1.0, 0.02519)]),
    ("aiperf.json", {"gamma": 3}, [(2, 152, 3, 2.9147, 0.08897)]),
    ("printed.txt", {}, [(8, 1024 + 128, 3, 2.5, 2.5 * 0.02)]),
    ("llmd-report.yaml", {}, [(16, 2048 + 128, 0, 1.0, 0.0125)]),
    ("inferencex.json", {"gamma": 3, "accepted": 2.0}, [(64, 1024 + 512, 3, 2.0, 0.042)]),
])  # fmt: skip
def test_what_a_file_times(name: str, said: dict, steps: list) -> None:
    found = [(t.batch, t.context, t.gamma, t.tokens_per_iteration, t.seconds) for t in read(FILES / name, Said(**said))]
    assert found == [pytest.approx(step, rel=2e-3) for step in steps]


def test_every_format_has_a_file_and_sees_only_its_own() -> None:
    seen = {}
    for path in sorted([*FILES.glob("*.json*"), *FILES.glob("*.yaml")]):
        text = path.read_text()
        runs = [yaml.safe_load(text)] if path.suffix == ".yaml" else parse_objects(path.name, text)
        found = [name for name, module in modules().items() if all(map(module.is_format, runs))]
        assert len(found) <= 1, path
        seen |= dict.fromkeys(found)
    assert set(seen) == set(modules()) - {"perfmodel_record"}


def test_a_chunk_is_an_iteration_where_it_holds_what_one_gains() -> None:
    path = FILES / "vllm-serve-draft3-4.json"
    run = json.loads(path.read_text())
    chunks = [gap for gaps in run["itls"] for gap in gaps]
    tokens = sum(run["output_lens"]) - len(run["output_lens"])
    (found,) = read(path, Said())
    assert found.seconds == pytest.approx(statistics.median(chunks))
    assert found.tokens_per_iteration == pytest.approx(tokens / len(chunks))
    assert found.prefill_share == 0.0
    assert found.seconds < 0.85 * found.tokens_per_iteration * run["median_tpot_ms"] / 1e3, "prefill is in the TPOT"


def test_several_results_appended_to_one_file_are_several_steps(tmp_path: Path) -> None:
    path = tmp_path / "runs.json"
    path.write_text("\n".join((FILES / f"vllm-serve-plain-{n}.json").read_text() for n in (1, 4)))
    assert [t.batch for t in read(path, Said())] == [1, 4]


def test_whole_runs_give_a_step_by_their_difference() -> None:
    def run(output: int) -> list:
        return read(FILES / f"vllm-latency-{output}.json", Said(batch=8, input=512, output=output))

    (step,) = differences([*run(64), *run(128)])
    assert step.seconds == pytest.approx((1.82 - 1.30) / 64)
    assert (step.batch, step.gamma, step.context) == (8, 0, 512 + 96)
    with pytest.raises(InputError, match="another output length"):
        differences(run(64))


@pytest.mark.parametrize(("name", "said", "says"), [
    ("vllm-latency-64.json", {}, r"batch: must be stated, as in --from vllm-latency-64.json,batch=N"),
    ("guidellm.json", {"gamma": 3}, "accepted: must be stated"),
    ("guidellm.json", {"gamma": 3, "accepted": 9.0}, r"from 1 to gamma \+ 1 = 4"),
    ("llama-server.jsonl", {}, "gamma: must be stated"),
    ("vllm-serve-draft3-1.json", {"gamma": 5}, "gamma: must be 3, the draft length in the file, given 5"),
])  # fmt: skip
def test_what_a_file_does_not_say_is_asked_for(name: str, said: dict, says: str) -> None:
    with pytest.raises(InputError, match=says):
        read(FILES / name, Said(**said))


@pytest.mark.parametrize("change", [
    {"median_tpot_ms": "x"},
    {"spec_decode_per_position_acceptance_rates": [0.5, 0.9]},
    {"itls": None, "output_lens": 7},
])  # fmt: skip
def test_a_spoilt_file_is_one_line(tmp_path: Path, change: dict) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps(json.loads((FILES / "vllm-serve-draft3-1.json").read_text()) | change))
    with pytest.raises(InputError, match=r"run\.json") as caught:
        read(path, Said())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "{}", "[1]", "{", "[" * 100_000, '{"kind": "engine", "points": []}'])
def test_what_is_no_benchmark_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"x\.json"):
        read(path, Said())
    with pytest.raises(InputError, match="no file of this name"):
        read(tmp_path / "none.json", Said())


def test_chunks_that_were_read_late_are_no_steps(tmp_path: Path) -> None:
    """A client without a processor finds two chunks at a time: gaps of 0 and of two steps, whose median is neither."""
    assert not bunched([0.01, 0.011, 0.009, 0.05])
    assert not bunched([0.084] * 20 + [5.0] * 5), "other requests' prompts say nothing of the steps between them"
    assert bunched([0.0, 0.02] * 10)
    run = json.loads((FILES / "vllm-serve-plain-1.json").read_text())
    run["itls"] = [[0.0, 0.016] * 31 + [0.0] for _ in run["itls"]]
    path = tmp_path / "run.json"
    path.write_text(json.dumps(run))
    (found,) = read(path, Said())
    assert (found.seconds, found.how) == (pytest.approx(run["median_tpot_ms"] / 1e3), "median TPOT")


def test_two_printed_blocks_are_two_runs_and_a_cut_one_is_refused(tmp_path: Path) -> None:
    text = (FILES / "printed.txt").read_text()
    path = tmp_path / "log.txt"
    path.write_text(text + text.replace("Maximum request concurrency:             8", "Max request concurrency: 4"))
    assert [t.batch for t in read(path, Said())] == [8, 4]
    path.write_text(text[: text.index("Median TPOT")])
    with pytest.raises(InputError, match=r"log\.txt: median_tpot_ms: must be a number"):
        read(path, Said())


GOOD: dict[str, Any] = {"where": "x.json", "seconds": 0.01, "batch": 4.0, "context": 1000.0, "gamma": 3}


@pytest.mark.parametrize(("name", "value"), [
    ("seconds", 0.0), ("seconds", float("nan")), ("seconds", 1e6), ("batch", 0.0), ("batch", float("inf")),
    ("context", -1.0), ("gamma", 4097), ("tokens_per_iteration", 0.5), ("prompt", 1e10), ("ttft_s", float("nan")),
    ("prefill_share", 1.1), ("samples", (0.1, float("nan"))),
])  # fmt: skip
def test_an_impossible_step_is_one_line(name: str, value: object) -> None:
    with pytest.raises(InputError, match=f"x.json: {name}: must be from"):
        Timing(**GOOD | {name: value})
