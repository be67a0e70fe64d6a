"""Whichever verb asks, an answer that means nothing says so: each kind of doubt, for every verb."""

import re
from pathlib import Path
from typing import Any

import pytest

import perfmodel as pm
from perfmodel import cli
from perfmodel.answers.question.caveats import TINY_BUDGET
from perfmodel.errors import InputError
from perfmodel.reading import data_folder
from perfmodel.specs import files

VERBS: dict[str, dict[str, Any]] = {
    "whatif": {"batch": 1, "gamma": 2, "alpha": 0.7},
    "ops": {"batch": 1, "gamma": 2, "alpha": 0.7, "stage": "draft"},
    "compare": {"gamma": 2, "alpha": 0.7},
    "tree": {"batch": 1, "rates": (0.7, 0.1)},
    "advise": {"batch": 1, "rate": ["{draft}=0.9"]},
    "schedule": {"max_batch": 2, "rate": 0.9},
    "traffic": {"output_len": 16, "request_rate": 0.1, "gamma": 2, "rate": 0.7},
    "inflection": {"batch": 1, "gamma": 2, "alpha": 0.7},
}
"""Verb -> the arguments that it has beside model, device, context and draft."""


def doubts_of(verb: str, draft: str = "self", context: int = 8192, **changes: Any) -> str:
    """The warnings of an answer to a small question, in one line."""
    question = {"hardware": "h100", "draft": draft, "context": context} | VERBS[verb] | changes
    question["model"] = changes.get("model", "llama-3.1-8b")
    if verb == "advise":
        question["rate"] = [f"{draft}{'@streamingllm:512' if draft == 'self' else ''}=0.9"]
    if verb == "traffic":
        question["input_len"] = question.pop("context") - 8
    return "; ".join(getattr(pm, verb)(**question).as_dict()["warnings"])


def test_every_verb_is_asked() -> None:
    """`sensitivity` and a page move inputs of a what-if, which has the warnings; of others see below."""
    verbs = {name for name in pm.__all__ if hasattr(getattr(pm, name), "question")}
    assert verbs - {"sensitivity", "sweep", "explore", "predictor", "hierarchy"} == set(VERBS)


@pytest.mark.parametrize("verb", [v for v in VERBS if v not in ("traffic", "inflection")])
def test_a_context_beyond_the_models_limit(verb: str) -> None:
    """Traffic refuses such lengths, and the lengths of `inflection` are its answer."""
    assert "context 131072 (+" in doubts_of(verb, context=131_072)
    assert "is beyond" not in doubts_of(verb)


@pytest.mark.parametrize("verb", [v for v in VERBS if v not in ("advise", "schedule")])
def test_a_model_that_cannot_fit(verb: str) -> None:
    """Where nothing fits, `advise` says so instead of an answer; `schedule` leaves out what does not."""
    assert "does not fit in" in doubts_of(verb, memory_fraction=0.1)
    assert "does not fit in" not in doubts_of(verb)


@pytest.mark.parametrize("verb", VERBS)
def test_a_draft_of_another_vocabulary_and_no_smaller_than_its_target(verb: str) -> None:
    """A research stack may run such a pair; a serving engine refuses it."""
    research = "h100-sxm-80gb.magicdec"
    assert "qwen3-0.6b has 151936 vocabulary entries" in doubts_of(verb, "qwen3-0.6b", calibration=research)
    if verb != "schedule":  # which then drafts nothing
        assert "is not smaller than its target" in doubts_of(
            verb, "qwen3-8b", memory_fraction=1.0, calibration=research
        )


@pytest.mark.parametrize("verb", [v for v in VERBS if v != "advise"])
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_draft_model_of_another_vocabulary_is_refused_where_the_engine_refuses_it(
    verb: str, engine: str
) -> None:
    with pytest.raises(InputError, match="128256 vocabulary entries of llama"):
        doubts_of(verb, "qwen3-0.6b", engine=engine)


def test_llama_cpp_allows_128_vocabulary_entries_of_difference() -> None:
    """Qwen2.5-0.5B has 151936 entries, Qwen2.5-7B 152064; Qwen2.5-0.5B and Qwen3.5-27B differ by more."""
    pair = {"hardware": "rtx-4090", "batch": 1, "context": 4096, "alpha": 0.7, "gamma": 2}
    pair |= {"engine": "llamacpp", "weights": "q4_k_m", "draft": "qwen2.5-0.5b"}
    assert pm.whatif(model="qwen2.5-7b", **pair).speedup > 0
    with pytest.raises(InputError, match="or up to 128 more or fewer"):
        pm.whatif(model="llama-3.1-8b", **pair)


@pytest.mark.parametrize("verb", [v for v in VERBS if v not in ("advise", "schedule")])
def test_a_budget_of_two_tokens(verb: str) -> None:
    assert "KV budget 2: " in doubts_of(verb, draft_kv="h2o:2")
    assert "KV budget" not in doubts_of(verb, draft_kv=f"h2o:{TINY_BUDGET}")


@pytest.mark.parametrize("verb", VERBS)
def test_constants_of_another_device(verb: str) -> None:
    assert "is transferred from a100-sxm-80gb" in doubts_of(verb, calibration="a100-sxm-80gb.magicdec")
    assert "is transferred" not in doubts_of(verb, calibration="h100-sxm-80gb.magicdec")
    assert "is from another vendor" in doubts_of(verb, hardware="gaudi3")


@pytest.mark.parametrize("verb", [v for v in VERBS if v != "tree"])
def test_an_option_that_changes_nothing(verb: str) -> None:
    """A tree has no n-gram draft."""
    options = {"topk_reuse": 0.5, "state_rollback": "replay", "state_dtype": "bf16"}
    options |= {"draft_weights": "fp8", "draft_kv_dtype": "fp8"}
    said = doubts_of(verb, "ngram", **options, calibration="ideal")
    flags = [f"--{name.replace('_', '-')}" for name in options]
    assert re.findall(r"(--[\w-]+) has no effect: ", said) == flags
    assert "has no effect" not in doubts_of(verb, "ngram", model="qwen3-next-80b-a3b", hardware="h200")


@pytest.mark.parametrize("verb", VERBS)
def test_a_draft_that_the_engine_does_not_run(verb: str) -> None:
    """Answers with a line for it say so there. Ideal calibrations are of no engine."""
    said = "this engine cannot run the draft: " in doubts_of(verb, "medusa", engine="sglang")
    assert said == (verb not in ("whatif", "advise", "schedule"))
    assert "cannot run" not in doubts_of(verb, "medusa", calibration="ideal")


@pytest.mark.parametrize("verb", [v for v in VERBS if v not in ("advise", "ops", "schedule", "tree")])
def test_an_acceptance_at_one_length_used_for_another(verb: str) -> None:
    assert "is used for 30" in doubts_of(verb, gamma=30, max_gamma=30)


@pytest.mark.parametrize("verb", ["whatif", "ops", "compare", "tree", "schedule", "inflection"])
def test_a_method_that_is_assumed(verb: str) -> None:
    assert "no draft_kv was given: streamingllm:512 is assumed" in doubts_of(verb)
    assert "assumed" not in doubts_of(verb, draft_kv="quest:512")


@pytest.mark.parametrize(("verb", "stated"), [("inflection", "alpha"), ("traffic", "rate")])
def test_a_draft_that_is_assumed(verb: str, stated: str) -> None:
    changes: dict[str, Any] = {"draft": None, stated: None}
    assert "no draft was given: eagle3 is assumed" in doubts_of(verb, **changes)


def test_a_draft_that_is_doubted_is_doubted_too_where_it_does_not_pay() -> None:
    question = {"gamma": None, "draft_kv": "h2o:2", "alpha": 0.1, "context": 200}
    assert "KV budget 2: " in doubts_of("whatif", **question)
    perfect = [doubts_of("whatif", **question | {"alpha": alpha, "gamma": 3}) for alpha in (1.0, 0.999)]
    assert ["acceptance 1): the answer is the best case" in line for line in perfect] == [True, False]
    assert "KV budget" not in doubts_of("whatif", **question | {"gamma": 0, "alpha": None})


@pytest.mark.parametrize("stage", ["target", "verify", "draft"])
def test_operations_have_warnings_only_about_the_pass_they_show(stage: str) -> None:
    found = doubts_of("ops", gamma=3, alpha=1.0, stage=stage)
    assert "accepted" not in found
    assert "acceptance" not in found
    about_draft = ("this engine cannot run the draft", "no draft_kv was given")
    assert [words in found for words in about_draft] == [stage == "draft"] * 2


@pytest.mark.parametrize(
    ("verb", "shown"),
    [("whatif", True), ("traffic", True), ("schedule", True), ("compare", False)],
)
def test_a_wider_interval_is_only_said_where_an_interval_is_shown(verb: str, shown: bool) -> None:
    found = doubts_of(
        verb, draft="eagle3", **{name: None for name in ("alpha", "rate") if name in VERBS[verb]}
    )
    assert "tokens it may be lower" in found
    assert ("so the interval is wider" in found) == shown


PICTURES = {
    "roofline": ("--batch 1 --context 64k --gamma 2", "(+3)"),
    "surface": ("--context 1k,64k", "(+2)"),
    "ratios": ("--batch 1,2,3,4,5,6,7,8 --context 1k,64k --gamma 2", "(+3)"),
    "breakdown": ("--context 64k --gamma 2", "(+3)"),
}


@pytest.mark.parametrize("picture", PICTURES)
def test_a_picture_says_its_doubts(picture: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One sequence fits, two do not. For the passes alone nothing has to be accepted."""
    asked, added = PICTURES[picture]
    question = f"--model qwen3-8b --hardware 5090 --draft-kv h2o:8 --alpha 1 {asked}"
    assert cli.run(["plot", picture, *question.split(), "-o", str(tmp_path / "p.svg")]) == 0
    printed = capsys.readouterr().out
    assert f"context 65536 {added}" in printed
    assert "KV budget 8: " in printed
    assert "does not fit" not in printed
    assert ("every drafted token is accepted" in printed) == (picture not in ("ratios", "roofline"))


ASKS = {
    "plot traffic": "--input-len 8k --output-len 16 --request-rate 0.1,0.2 --gamma 2 --rate 0.9 -o p.svg",
    "explore": "-o p.html",
}


@pytest.mark.parametrize("verb", ASKS)
def test_a_picture_of_answers_says_their_doubts(verb, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    command = f"{verb} --model llama-3.1-70b --hardware h100 --tp 4 --draft qwen3-0.6b {ASKS[verb]}"
    command += " --calibration h100-sxm-80gb.magicdec"
    assert cli.run(command.split()) == 0
    assert "qwen3-0.6b has 151936 vocabulary entries" in " ".join("".join(capsys.readouterr()).split())


@pytest.mark.parametrize("verb", VERBS)
def test_a_constant_a_thousand_times_too_large(verb: str, tmp_path: Path) -> None:
    text = (data_folder("hardware") / "calibrations" / "h100-sxm-80gb.magicdec.yaml").read_text()
    path = tmp_path / "mine.yaml"
    for name, far in (("iteration_fixed_s", 0.7), ("attention_flops_fraction", 0.0006)):
        head, _, tail = text.partition(f"{name}: {{value: ")
        path.write_text(f"{head}{name}: {{value: {far}{tail[tail.index(',') :]}")
        assert f"{name} is {far:.3g}; in bundled" in doubts_of(verb, calibration=str(path))
    path.write_text(text)
    assert "in bundled calibrations" not in doubts_of(verb, calibration=str(path))


def test_a_grid_says_its_doubts_once_and_a_dozen_at_most(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid = ["--hardware", "h100", "--batch", "1,2", "--gamma", "2", "--context", "4k,16m"]
    grid += ["--calibration", "ideal", "--draft-kv", "streamingllm:512"]
    models = [name for name in files.bundled_names("models") if name.startswith("qwen3")]
    cli.run(["sweep", "--model", ",".join(models), *grid, "--alpha", "0.7", "-o", str(tmp_path / "grid.csv")])
    *notes, more, rows = capsys.readouterr().err.splitlines()
    form = r"warning: (batch 1 does not fit|context 16M \(\+3\) is beyond qwen3)"
    assert all(re.match(form, note) for note in notes)
    assert len(notes) == len({*notes}) == 12
    assert more == f"warning: {len(models) + 1 - 12} more"
    assert rows.startswith(f"{len(models) * 4} rows in ")


def test_a_device_without_fixed_costs_has_none_to_move() -> None:
    question = {"model": "llama-3.1-8b", "hardware": "h100", "batch": 8, "context": 8192, "alpha": 0.8}
    for calibration, there in (("ideal", False), ("h100-sxm-80gb.magicdec", True)):
        rows = pm.sensitivity(**question, gamma=3, calibration=calibration)
        assert ("fixed costs" in {row.input for row in rows}) == there
        assert rows.headline() == f"{len(rows)} x Move"
        assert rows._repr_html_().count("<tr>") == len(rows) + 1
    (read,) = (row for row in rows if row.input == "KV re-read factor of verification")
    answers = [pm.whatif(**question, gamma=3, calibration=calibration, kv_reread=n) for n in (1, 4)]
    assert [read.speedup_low, read.speedup_high] == [one.speedup for one in answers]


def test_a_bridge_that_is_sold_apart_is_not_assumed() -> None:
    """Two RTX 3090 communicate over PCIe, unless the question states their bridge; two H100 NVL have one."""
    model = {"model": "qwen3-4b", "engine": "vllm"}
    pair = doubts_of("whatif", hardware="rtx-3090", tp=2, **model)
    assert "no NVLink3 bridge (pair) is assumed between the 2 devices, because it is sold separately" in pair
    assert "--hardware rtx-3090-24gb:nvlink has one" in pair
    assert "is assumed between" not in doubts_of("whatif", hardware="rtx-3090", tp=1, **model)
    assert "is assumed between" not in doubts_of("whatif", hardware="rtx-3090:nvlink", tp=2, **model)
    assert "NVLink4 bridge (pair) is assumed" in doubts_of("whatif", hardware="h100-nvl", tp=2, **model)


def test_a_bridge_joins_only_its_devices() -> None:
    """An RTX 3090's bridge joins two; a third and a fourth device communicate over PCIe."""
    over_pcie = doubts_of("whatif", model="qwen3-4b", hardware="rtx-3090:nvlink", tp=4, engine="vllm")
    assert "joins 2 devices: 4 communicate over PCIe" in over_pcie
    assert "is assumed between" not in over_pcie


@pytest.mark.parametrize(("hardware", "warns"), [("MacBook Air M4", True), ("macbook-pro-m4", False)])
def test_a_device_without_a_fan_is_told_to_slow_down(hardware: str, warns: bool) -> None:
    question = {"batch": 1, "context": 500, "draft": "qwen3-0.6b", "alpha": 0.6, "weights": "q4_k_m"}
    answer = pm.whatif("qwen3-4b", hardware, **question)
    assert any("has no fan" in warning for warning in answer.warnings) is warns
