"""Acceptance: observed on the bundled model, imported from other tools, and read back by a what-if."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from perfmodel.acceptance import Acceptance
from perfmodel.cli import run
from perfmodel.errors import InputError
from perfmodel.specs.acceptance_file import read_acceptance
from perfmodel.specs.acceptance_rows import find_acceptance

pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="needs torch")
CHECKPOINT = Path(__file__).parents[1] / "validate" / "lm" / "checkpoint"


def imported(path: Path, format: str, *more: str, gamma: int = 3) -> Acceptance:
    out = path.with_name("table.json")
    arguments = [
        "--import",
        str(path),
        "--format",
        format,
        "--target",
        "llama-3.1-8b",
        "--draft-kv",
        "snapkv:512",
        *more,
    ]
    status = run(["validate", "acceptance", *arguments, "--context", "4k", "--gamma", str(gamma), "--out", str(out)])
    assert status == 0
    row = find_acceptance("llama-3.1-8b", "self", "snapkv", 512, 4096, read_acceptance(out))
    return Acceptance.from_row(row)


def test_vllm_counters_are_survival_not_conditional(tmp_path: Path) -> None:
    """100 drafts; 80, 60, 30 accepted at positions 0, 1, 2: a = .8, .75, .5 and Omega = 1 + 1.7."""
    page = tmp_path / "metrics.txt"
    page.write_text(
        "# HELP vllm:spec_decode_num_drafts_total Number of drafts\n"
        'vllm:spec_decode_num_drafts_total{engine="0",model_name="m"} 40\n'
        'vllm:spec_decode_num_drafts_total{engine="1",model_name="m"} 60\n'
        'vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} 80\n'
        'vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="1"} 60\n'
        'vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="2"} 3e1\n'
    )
    found = imported(page, "vllm")
    assert found.prefix == pytest.approx((0.8, 0.75, 0.5))
    assert found.tokens_per_iteration(3) == pytest.approx(2.7)
    page.write_text(json.dumps({"num_drafts": 100, "num_accepted_tokens_per_pos": [80, 60, 30]}))
    assert imported(page, "vllm").prefix == pytest.approx((0.8, 0.75, 0.5))
    page.write_text(json.dumps({"num_drafts": 100, "num_accepted_tokens_per_pos": [60, 80]}))
    with pytest.raises(InputError, match="must not rise"):
        _import(page, "vllm")


def test_sglang_lengths_count_the_bonus_token(tmp_path: Path) -> None:
    """295.2 tokens in 100 passes: Omega 2.952 at gamma 3 is alpha 0.8."""
    path = tmp_path / "requests.jsonl"
    lines = [{"meta_info": {"completion_tokens": n, "spec_verify_ct": v}} for n, v in ((95.2, 40), (200, 60))]
    path.write_text("\n".join(map(json.dumps, lines)))
    assert imported(path, "sglang").alpha == pytest.approx(0.8, abs=1e-9)
    path.write_text(json.dumps({"accept_length": 2.952}))
    assert imported(path, "sglang").alpha == pytest.approx(0.8, abs=1e-9)
    path.write_text(json.dumps({"accept_length": 4.5}))
    with pytest.raises(InputError, match=r"gamma \+ 1 = 4"):
        _import(path, "sglang")


def test_an_nvidia_profile_is_read_in_the_convention_that_the_caller_states(tmp_path: Path) -> None:
    """.9 and .8 conditional are .9 and .72 survival: Omega 2.62 either way."""
    path = tmp_path / "speculation_profile.json"
    path.write_text(json.dumps({"drafts": {"rates": [0.9, 0.8]}}))
    assert imported(path, "nvidia", "--convention", "conditional").tokens_per_iteration(2) == pytest.approx(2.62)
    path.write_text(json.dumps({"drafts": {"rates": [0.9, 0.72], "other": [0.1]}}))
    chosen = ["--convention", "survival", "--field", "drafts.rates"]
    assert imported(path, "nvidia", *chosen).tokens_per_iteration(2) == pytest.approx(2.62)
    with pytest.raises(InputError, match=r"lists there: drafts\.rates, drafts\.other"):
        _import(path, "nvidia", "survival")
    with pytest.raises(InputError, match="--convention"):
        _import(path, "nvidia", None)


@pytest.mark.parametrize(("format", "text"), [("vllm", "{}"), ("sglang", "[]"), ("nvidia", "[1]"), ("nvidia", "{")])
def test_what_is_not_the_format_is_refused(tmp_path: Path, format: str, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"x\.json"):
        _import(path, format)
    with pytest.raises(InputError, match="--format"):
        _import(path, "tensorrt")


def _import(path: Path, format: str, convention: str | None = "survival") -> None:
    from validate.harness.imports import Subject, import_file

    import_file(path, format, Subject("t", "self", "full", 4096, 3), convention)


@pytest.mark.skipif(not (CHECKPOINT / "model.safetensors").is_file(), reason="no checkpoint in this tree")
def test_observed_acceptance_answers_a_whatif(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A draft that reads the whole cache in fp32 is the target: everything is accepted. A sparse one loses some."""
    monkeypatch.setenv("PERFMODEL_COMMIT", "0123456789abcdef")
    out = tmp_path / "table.json"
    kinds = ["--draft-kv", "full", "--draft-kv", "streamingllm:32"]
    sizes = ["--context", "256", "--gamma", "3", "--prompts", "3", "--new-tokens", "32", "--threads", "1"]
    assert run(["validate", "acceptance", *kinds, *sizes, "--out", str(out)]) == 0
    rows = {row.draft_kv: Acceptance.from_row(row) for row in read_acceptance(out)}
    assert rows["full"].prefix == (1.0, 1.0, 1.0)
    assert rows["streamingllm"].tokens_per_iteration(3) < 4.0
    table = json.loads(out.read_text())
    for row in table["rows"]:
        iterations, accepted = sum(row["histogram"]), sum(j * n for j, n in enumerate(row["histogram"]))
        assert 3 * (32 - 1) <= iterations + accepted <= 3 * (32 + 3)
    capsys.readouterr()
    question = ["--model", str(CHECKPOINT), "--hardware", "h100", "--batch", "1", "--context", "256", "--gamma", "3"]
    draft = ["--draft-kv", "streamingllm:32", "--acceptance", str(out), "--json"]
    assert run(["whatif", *question, *draft]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["acceptance"]["tokens_per_iteration"] == pytest.approx(rows["streamingllm"].tokens_per_iteration(3))
    assert "held-out" in answer["acceptance"]["source"]
