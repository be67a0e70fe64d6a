"""Files of benchmarks (files/README.md): what each times, how its format is known, and which are refused."""

import json
from pathlib import Path

import pytest

from perfmodel.validate.engine.formats import FORMATS, read
from perfmodel.validate.engine.timing import GivenFacts
from tests.refusals import refused
from tests.validate.engine.runs_by_hand import RUNS

FILES = Path(__file__).parent / "files"


@pytest.mark.parametrize(
    ("name", "given", "steps"),
    [
        # batch, context, K, tokens per iteration, seconds: by hand from the files
        ("vllm-serve-plain-1.json", {}, [(1, 512 + 32, 0, 1.0, 0.00802)]),
        ("vllm-serve-plain-2.json", {}, [(2, 512 + 32, 0, 1.0, 0.00799)]),
        ("vllm-serve-plain-4.json", {}, [(4, 512 + 32, 0, 1.0, 0.0078)]),
        ("vllm-serve-draft3-1.json", {}, [(1, 512 + 64, 3, 508 / 168, 0.01621)]),
        (
            "vllm-serve-draft3-4.json",
            {},
            [(4, 512 + 64, 3, 2032 / 677, 0.02352)],
        ),  # 0.0325 by its TPOT: prefill is in it
        ("vllm-serve-ngram4-1.json", {}, [(1, 256 + 64, 4, 508 / 114, 0.0073)]),
        ("vllm-forward.json", {}, [(32, 8192, 0, 1.0, 0.0062105), (32, 8192, 3, 1.0, 0.006905)]),
        (
            "sglang-serving.jsonl",
            {},
            [(8, 1024 + 128, 0, 1.0, 0.0175), (8, 1024 + 128, 3, 2.42, 2.42 * 0.0098)],
        ),
        ("llama-bench.json", {}, [(1, 4096 + 64, 0, 1.0, 0.013)]),
        ("llama-batched-bench.jsonl", {}, [(1, 512 + 64, 0, 1.0, 0.0125), (8, 512 + 64, 0, 1.0, 0.01875)]),
        ("llama-server.jsonl", {"gamma": 3}, [(1, 612, 3, 2.0, 0.019), (1, 562, 3, 2.0, 0.0186)]),
        (
            "guidellm.json",
            {"gamma": 3, "accepted": 1.0},
            [(1, 152, 3, 1.0, 0.02101), (2, 152, 3, 1.0, 0.02519)],
        ),
        ("aiperf.json", {"gamma": 3}, [(2, 152, 3, 2.9147, 0.08897)]),
        ("printed.txt", {}, [(8, 1024 + 128, 3, 2.5, 2.5 * 0.02)]),
        ("llmd-report.yaml", {}, [(16, 2048 + 128, 0, 1.0, 0.0125)]),
        # 121 of 180 drafted tokens accepted, so 79 iterations for 200 tokens
        ("lm-studio.json", {"gamma": 3}, [(1, 24 + 100, 3, 200 / 79, 200 / 79 / 51.43)]),
        ("lm-studio.json", {"gamma": 3, "batch": 2}, [(2, 24 + 100, 3, 200 / 79, 200 / 79 / 51.43)]),
        ("ollama.json", {}, [(1, 26 + 145, 0, 1.0, 4.709213 / 290)]),
        ("ollama.json", {"batch": 4}, [(4, 26 + 145, 0, 1.0, 4.709213 / 290)]),
        ("ollama.json", {"gamma": 3, "accepted": 2.0}, [(1, 26 + 145, 3, 2.0, 2 * 4.709213 / 290)]),
    ],
)
def test_what_a_file_times(name, given, steps) -> None:
    read_steps = read(FILES / name, GivenFacts(**given))
    step_figures = [(t.batch, t.context, t.gamma, t.tokens_per_iteration, t.seconds) for t in read_steps]
    assert step_figures == [pytest.approx(step, rel=2e-3) for step in steps]


@pytest.mark.parametrize(("accepted", "seconds"), [(0, 1 / 51.43), (199, 200 / 51.43), (200, None)])
def test_an_answer_has_at_least_one_iteration(tmp_path: Path, accepted: int, seconds: float | None) -> None:
    """LM Studio counts 200 tokens. Each iteration gives its accepted tokens and one more."""
    answer = json.loads((FILES / "lm-studio.json").read_text())
    answer["stats"]["accepted_draft_tokens_count"] = accepted
    path = tmp_path / "answer.json"
    path.write_text(json.dumps(answer))
    given = GivenFacts(gamma=4096)
    if seconds is None:
        refused("accepted_draft_tokens_count: must be below the 200 tokens, given 200.0", read, path, given)
    else:
        assert read(path, given)[0].seconds == pytest.approx(seconds)


def test_the_prompt_of_an_answer_is_the_stated_one_where_the_file_has_none(tmp_path: Path) -> None:
    """Ollama leaves out the length of a prompt that its cache holds."""
    answer = json.loads((FILES / "ollama.json").read_text())
    del answer["prompt_eval_count"]
    path = tmp_path / "answer.json"
    path.write_text(json.dumps(answer))
    assert read(path, GivenFacts(input=1000))[0].context == 1000 + 145
    refused("input: must be stated", read, path, GivenFacts())


SERVED = json.loads((FILES / "vllm-serve-draft3-1.json").read_text())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "[1]",
        "{",
        "[" * 100_000,
        '{"kind": "engine", "points": []}',
        json.dumps(SERVED | {"median_tpot_ms": "x"}),
        json.dumps(SERVED | {"itls": None, "output_lens": 7}),
        json.dumps(SERVED | {"spec_decode_per_position_acceptance_rates": [0.5, 0.9]}),
    ],
)
def test_what_is_no_benchmark_is_refused(tmp_path, text) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    refused(r"x\.json", read, path, GivenFacts())
    refused("no file of this name", read, tmp_path / "none.json", GivenFacts())


def test_a_format_is_told_by_all_of_its_keys() -> None:
    for name, run in RUNS.items():
        assert [known for known, form in FORMATS.items() if form.has(run)] == [name]
        told_by = [keys for keys in FORMATS[name].keys if keys <= run.keys()]
        for key in set().union(*told_by):
            without = {other: value for other, value in run.items() if other != key}
            assert not FORMATS[name].has(without), (name, key)


FAILED = {
    "vllm-serve-plain-1.json": ('"failed":0', '"failed":1'),
    "vllm-serve-plain-2.json": ('"failed":0', '"failed":0,"errors":["","503"]'),
    "printed.txt": ("Failed requests:                         0", "Failed requests:     1"),
    "guidellm.json": ('"metrics": {', '"metrics": {"request_totals": {"errored": 1},'),
    "aiperf.json": ('"request_count": {', '"error_request_count": {"avg": 1.0},"request_count": {'),
    "llmd-report.yaml": ("failures: 0", "failures: 1"),
    "sglang-serving.jsonl": ('"completed": 24', '"errors": ["refused"], "completed": 24'),
}


@pytest.mark.parametrize("name", FAILED)
def test_a_run_with_failed_requests_is_refused(name: str, tmp_path: Path) -> None:
    text = (FILES / name).read_text(encoding="utf-8")
    path = tmp_path / name
    before, after = FAILED[name]
    assert before in text
    path.write_text(text.replace(before, after, 1), encoding="utf-8")
    refused(
        "must be 0 failed requests .the others shared a smaller batch., given 1", read, path, GivenFacts()
    )


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("llama_server", {"predicted_n": 1}, "below predicted_n"),
        ("guidellm", {"benchmarks": {}}, "one or more benchmarks"),
    ],
)
def test_a_run_without_a_step_is_refused(name, change, says) -> None:
    given = GivenFacts(batch=1, input=1, output=1)
    refused(says, FORMATS[name].read, "x", RUNS[name] | change, given)
