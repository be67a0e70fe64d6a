"""Lines that `advise` prints for 60 random questions: parsers take them, and they serve the question."""

import json
import re
import shlex
from itertools import dropwhile

import pytest

from perfmodel.answers.advice.servers.base import MODEL
from perfmodel.specs import load_model
from perfmodel.specs.models.checkpoint_rows import listed_checkpoints
from perfmodel.specs.models.checkpoints import main_format
from tests.engine.flags import vocabularies
from tests.engine.questions import QUESTIONS, Printed, printed

LENGTH = {"vllm": "--max-model-len", "sglang": "--context-length"}
TENSOR = {"vllm": "--tensor-parallel-size", "sglang": "--tp"}
GROUPS = {"vllm": "--data-parallel-size", "sglang": "--dp"}
COMMANDS = {"vllm": 2, "sglang": 3, "llamacpp": 1}
"""Engine -> words before the first argument."""
VARIABLE = re.compile(r"[A-Z_]+=")
"""The start of a variable that is set for the command."""
BLOCK = 128


def command(case: Printed) -> list[str]:
    """The words that start a server, without the variables that they set."""
    return [*dropwhile(VARIABLE.match, shlex.split(case.line.rpartition("\n")[2]))]


def values(case: Printed) -> dict[str, str | None]:
    """The flags of a line, by the engine's own vocabulary."""
    words = command(case)[COMMANDS[case.engine] :]
    if case.engine == "vllm":
        words = words[1:]
    return vocabularies()[case.engine].values(words)


def served(case: Printed) -> str:
    """The model that a line names."""
    if case.engine == "vllm":
        return command(case)[2]
    flags = values(case)
    return str(flags.get("--model-path") or flags.get("-m") or flags["-hf"])


@pytest.fixture(params=[10, pytest.param(QUESTIONS, marks=pytest.mark.slow)], ids=str)
def cases(request: pytest.FixtureRequest) -> tuple[Printed, ...]:
    """The lines of a third of the questions, and of all of them."""
    return printed(request.param)


def test_questions_have_lines_of_every_engine(cases) -> None:
    assert len({str(case.question) for case in cases}) in (10, QUESTIONS)
    assert {case.engine for case in cases} == {"vllm", "sglang", "llamacpp"}


def test_every_flag_is_known_and_has_a_valid_value(cases) -> None:
    for case in cases:
        assert values(case), case.line


def test_a_flag_that_no_engine_has_is_refused() -> None:
    vllm = vocabularies()["vllm"]
    for words, fault in (
        (["--max-model-length", "8"], "no flag"),
        (["--kv-cache-dtype", "fp7"], "is not of"),
        (["--max-num-seqs"], "has no value"),
        (["--seed", "1", "--seed", "2"], "twice"),
    ):
        with pytest.raises(ValueError, match=fault):
            vllm.values(words)


def test_the_longest_sequence_covers_the_context(cases) -> None:
    for case in cases:
        flags = values(case)
        if case.engine == "llamacpp":
            room = int(flags["-c"] or 0) // int(flags["-np"] or 1)
        else:
            room = int(flags[LENGTH[case.engine]] or 0)
        limit = load_model(case.question["model"]).max_position_embeddings
        assert room >= min(case.sequence_tokens, limit), case.line


def test_the_checkpoint_has_the_format_of_the_question(cases) -> None:
    """A line names the model's own checkpoint, quantised as it is loaded, or one that is known to have the
    format; else a remark says what the difference is, or what ``MODEL`` stands for.
    """
    for case in cases:
        question_format = case.question.get("weights")
        stated_format = load_model(case.question["model"]).weights
        if case.engine == "llamacpp":
            assert question_format is not None
            assert question_format.upper() in served(case), case.line
            continue
        if question_format is None or question_format in (stated_format, main_format(stated_format)):
            continue
        if values(case).get("--quantization") == question_format:
            assert stated_format == "bf16", case.line
            continue
        remark = case.advice.serve.remarks.get(case.engine, "")  # type: ignore[union-attr]
        if served(case) == MODEL:
            assert f"in {question_format} (--model-path)" in remark, case.line
            continue
        known = next(
            (row.weights for row in listed_checkpoints() if row.checkpoint == served(case)), stated_format
        )
        assert main_format(known)[:3] == question_format[:3] or "awq" in (known[:3], question_format[:3]), (
            case.line
        )
        assert (
            known == question_format
            or f"{served(case)} is {known}; the prediction is for {question_format}" in remark
        ), case.line


def test_the_devices_of_a_line_are_those_of_the_question(cases) -> None:
    for case in cases:
        if case.engine == "llamacpp":
            continue
        flags = values(case)
        tensor = int(flags.get(TENSOR[case.engine]) or 1)
        groups = int(flags.get(GROUPS[case.engine]) or 1)
        used = tensor * groups if case.engine == "vllm" else tensor
        pick = case.advice.chosen
        assert pick is not None
        assert used == pick.tp, case.line
        if "gpus" in case.question:
            assert pick.gpus == case.question["gpus"], case.line
            assert pick.replicas * used == pick.gpus, case.line
        elif "request_rate" not in case.question:
            assert used == case.question["tp"], case.line


def test_tensor_parallelism_divides_heads_and_blocks(cases) -> None:
    for case in cases:
        if case.engine == "llamacpp":
            continue
        model = load_model(case.question["model"])
        pick = case.advice.chosen
        assert pick is not None
        attends = pick.tp // pick.dp
        assert model.num_attention_heads % attends == 0, case.line
        assert not (model.mla and "per_token_head" in case.line), case.line
        weights = case.question.get("weights") or model.weights
        if weights != "fp8-block":
            continue
        if model.moe is not None:
            assert (model.moe.intermediate_size * pick.ep // pick.tp) % BLOCK == 0, case.line
        else:
            assert (model.intermediate_size // attends) % BLOCK == 0, case.line


def test_the_draft_of_a_line_is_that_of_the_answer(cases) -> None:
    """A line drafts as many tokens as the answer says, from the answer's draft, or not at all."""
    for case in cases:
        pick = case.advice.chosen
        assert pick is not None
        flags = values(case)
        if case.engine == "vllm":
            config = json.loads(flags.get("--speculative-config") or "{}")
            tokens = config.get("num_speculative_tokens", 0)
            assert tokens == pick.gamma, case.line
        elif case.engine == "sglang":
            drafted = int(flags.get("--speculative-num-draft-tokens") or 1) - 1
            assert drafted == pick.gamma, case.line


def test_heads_in_files_of_their_own_are_named_in_llama_cpp(cases) -> None:
    for case in cases:
        flags = values(case) if case.engine == "llamacpp" else {}
        method = flags.get("--spec-type") or ""
        if method in ("draft-simple", "draft-eagle3", "draft-dflash", "draft-dspark"):
            assert flags.get("-md"), case.line
