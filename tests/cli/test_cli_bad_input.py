"""What a user can get wrong: exit status 2, one line on stderr that names the place, and no traceback."""

import re
import shlex
import subprocess
import sys
from typing import Any

import pytest

import perfmodel as pm
from perfmodel import cli
from perfmodel.answers.question import Query
from perfmodel.cli.several import questions_of
from perfmodel.errors import InputError
from tests import pinned

REFUSED = pinned.refused()


def test_a_refusal_is_one_line() -> None:
    assert len(REFUSED) > 150
    assert [refusal for refusal in REFUSED.values() if not re.fullmatch("error: [^\n]+", refusal)] == []


TYPED_ONLY = re.compile(r"(-b|-g|-m|--batch|--gamma|--tp|--model) \S+,|--kontext|Missing")
"""Lists, which a command takes, and flags that are unknown or left out."""


@pytest.mark.parametrize(
    "question",
    [
        q
        for q, refusal in REFUSED.items()
        if q.startswith("whatif ") and not TYPED_ONLY.search(f"{q} {refusal}")
    ],
    ids=str,
)
def test_python_refuses_in_the_same_words_and_names_the_argument(
    question: str, tmp_path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in pinned.FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    line = REFUSED[question]
    words = shlex.split(question)[1:]
    names: dict[str, Any] = {flag: param for param in cli.command("whatif").params for flag in param.opts}
    given: dict[str, object] = {}
    while words:
        flag = words.pop(0)
        param = names[flag]
        if flag.startswith("--"):  # the command names the flag that was given, Python the argument
            line = line.replace(f"error: {flag}:", f"error: --{param.name.replace('_', '-')}:")
        given[param.name] = True if param.is_flag else words.pop(0)
    with pytest.raises(InputError) as caught:
        pm.whatif(**{name: value for name, value in given.items() if name not in ("verbose", "sensitivity")})
    if not re.match(r"error: --(batch|context|gamma)\b", line):  # where the command takes lists, and says so
        assert pinned.tidy(f"error: {caught.value.as_flags}") == line
    if named := re.match(r"error: --([a-z-]+):", line):
        assert str(caught.value).startswith(f"{named[1].replace('-', '_')}: ")


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("whatif -m qwen3-8b -b", "-b: must be followed by COUNTS, given nothing"),
        (
            "traffic --kv-offload",
            "--kv-offload: must be followed by host|c2c|nvme|remote:GB/S,SECONDS, given",
        ),
        ("validate engine --context", "--context: must be followed by COUNTS, given nothing"),
        ("whatif --json=3", "Option '--json' does not take a value."),
    ],
)
def test_a_flag_without_its_value_names_what_may_follow(command: str, says: str, capsys) -> None:
    assert cli.run(command.split()) == 2
    assert capsys.readouterr().err.startswith(f"error: {says}")


@pytest.mark.parametrize("flag", ["--pass", "--stage"])
def test_a_wrong_value_is_refused_under_the_flag_that_was_given(flag: str, capsys) -> None:
    assert cli.run(("ops", *f"-m llama-3.1-8b --hardware h100 -b 1 -c 1k {flag} decode".split())) == 2
    assert capsys.readouterr().err.startswith(f"error: {flag}: no stage named 'decode'")


def test_an_option_without_graphs_is_answered_with_what_to_do(capsys) -> None:
    for option in ("--enforce-eager", "--disable-cuda-graph"):
        assert cli.run(["whatif", option]) == 2
        told = " ".join(capsys.readouterr().err.split())
        assert "not modelled; a server with them is slower than predicted; without this option" in told
        assert "`validate engine --watch LOG` compares" in told


@pytest.mark.parametrize(
    ("option", "names"),
    [
        ("--lora-rank", "LoRA adapters"),
        ("--guided-decoding", "structured output"),
        ("--enforce-eager", "passes without CUDA graphs"),
        (
            "--cuda-graph-max-bs",
            "not a flag of this command; here: the answer is for the sizes of CUDA graphs",
        ),
        ("--cudagraph-capture-sizes", "not a flag of this command; here: the answer is for the sizes of"),
        ("--limit-mm-per-prompt", "not a flag of this command; here: the answer is for requests of text"),
        ("--spec-draft-p-min", "not a flag of this command; here: drafts then stop early"),
        ("--n-gpu-layers", "not a flag of this command; here: --gpu-layers N with"),
        ("--draft-n-max", "not a flag of this command; here: --gamma N"),
        ("--isl", "not a flag of this command; here: `traffic --input-len N --output-len N`"),
        ("--qps", "not a flag of this command; here: `traffic --request-rate R`"),
        ("--vram", "not a flag of this command; here: --hardware NAME:24gb"),
        ("--tensor-split", "not a flag of this command; here: --layer-split N"),
        ("--draft-min", "not a flag of this command; here: drafts then stop early"),
        ("--temperature", "not a flag of this command; here: sampling changes only the acceptance"),
        ("--flash-attn", "not a flag of this command; here: assumed to be on"),
        ("--chunked-prefill-size", "not a flag of this command; here: `traffic --max-num-batched-tokens N`"),
        ("--threads", "not a flag of this command; here: --host-bandwidth GB/S"),
        ("--trust-remote-code", "not a flag of this command; here: it changes no predicted time"),
        ("--speculative-disable-by-batch-size", "not a flag of this command; here: `schedule` finds"),
        ("-ngl", "not a flag of this command; here: --gpu-layers N with"),
        ("-fa", "not a flag of this command; here: assumed to be on"),
        ("-ctk", "not a flag of this command; here: --kv-dtype FORMAT"),
        ("-md", "not a flag of this command; here: --draft NAME"),
        ("-np", "not a flag of this command; here: --batch N"),
        ("--accept-rate", "not a flag of this command; here: --acceptance-rate SHARE"),
        ("--topk", "not a flag of this command; here: `tree --given"),
        ("--accept-length", "not a flag of this command; here: --tokens-per-iteration N"),
        ("--mmproj", "vision and audio encoders: not modelled"),
        ("--disaggregation-mode", "not a flag of this command; here: `traffic --prefill"),
    ],
)
def test_an_option_about_what_is_not_modelled_is_answered_by_name(capsys, option: str, names: str) -> None:
    assert cli.run(["whatif", option, "16"]) == 2
    assert f"error: {option}: {names}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flag", "name", "nearest"),
    [
        ("--engine", "ExLlamaV3", "--engine llamacpp"),
        ("--engine", "ktransformers", "--cpu-moe N"),
        ("--engine", "ik_llama.cpp", "--engine llamacpp"),
        ("--hardware", "Ascend 910B", "contradict each other"),
        ("--hardware", "tpu-v7x", "tpu-v6e"),
        ("--hardware", "cpu", "perfmodel validate microbench cpu-quick"),
        ("--weights", "exl3", "4.0bpw"),
        ("--draft", "lookahead", "--draft ngram"),
        ("--draft", "ReDrafter", "--draft eagle"),
    ],
)
def test_a_known_name_that_is_not_modelled_has_the_nearest_question(
    capsys, flag: str, name: str, nearest: str
) -> None:
    question = {"--model": "qwen3-8b", "--hardware": "h100", "--batch": "1", "--context": "1k", flag: name}
    assert cli.run(["whatif", *(word for pair in question.items() for word in pair)]) == 2
    message = capsys.readouterr().err
    assert message.startswith(f"error: {flag}: '{name}' is not modelled: ")
    assert nearest in message


def test_a_number_in_place_of_an_acceptance_file_has_the_flags_of_numbers(capsys) -> None:
    asked = "whatif --model qwen3-8b --hardware h100 --batch 1 --context 1k --draft eagle3 --acceptance 0.6"
    assert cli.run(asked.split()) == 2
    assert "error: --acceptance: must be a file; a number is --alpha" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("program", "engine"),
    [("Ollama", "llama.cpp"), ("LM Studio", "llama.cpp"), ("llama-server", "llama.cpp"), ("mlx-lm", "MLX")],
)
def test_a_program_that_runs_an_engine_is_answered_as_that_engine(program: str, engine: str) -> None:
    answer = pm.whatif("qwen3-8b", "m4-max", batch=1, context="1k", draft="ngram", alpha=0.5, engine=program)
    assert (
        answer.calibration.stack
        == pm.whatif(
            "qwen3-8b", "m4-max", batch=1, context="1k", draft="ngram", alpha=0.5, engine=engine
        ).calibration.stack
    )


def test_a_closed_pipe_is_quiet() -> None:
    command = (
        f"{shlex.quote(sys.executable)} -m perfmodel models list --json | head -c 10; exit ${{PIPESTATUS[0]}}"
    )
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stderr == ""
    assert len(done.stdout) == 10


def lacking(module: str) -> ModuleNotFoundError:
    return ModuleNotFoundError(f"No module named {module!r}", name=module)


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (
            lacking("torch"),
            2,
            r"error: perfmodel validate: needs torch, .* in a clone, pip install '\.\[validate\]'\n",
        ),
        (
            lacking("scipy.optimize"),
            2,
            r"error: perfmodel validate: needs scipy, .* pip install '\.\[fit\]'\n",
        ),
        (MemoryError(), 2, "error: out of memory: ask for fewer points at a time\n"),
        (BrokenPipeError(), 0, ""),
        (SystemExit(143), 143, ""),
        (KeyboardInterrupt(), 130, ""),
        (lacking("perfmodel.gone"), None, ""),
        (ZeroDivisionError(), None, ""),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_ends_a_command(
    error: BaseException, status: int | None, message: str, monkeypatch, capsys
) -> None:
    """A line where the user can do something, nothing where he stopped it; a bug (None) keeps its
    traceback.
    """

    def end(_: str) -> None:
        raise error

    monkeypatch.setattr(cli, "import_module", end)
    if status is None:
        with pytest.raises(type(error)):
            cli.run(["validate"])
    else:
        assert cli.run(["validate"]) == status
        assert re.fullmatch(message, capsys.readouterr().err)


LONG = "n" * 5000


@pytest.mark.parametrize(
    "command",
    [
        f"validate generate --batch 1 --gamma 1 --draft {LONG}",
        f"validate generate --batch 1 --gamma 1 --checkpoint {LONG}",
        f"validate finish {LONG}.journal",
        f"validate run {LONG}.yaml --machine t-1",
        f"validate check --results {LONG}",
        f"validate report {LONG}",
        f"calibrations import {LONG} {LONG} --gpu h100 --engine vllm --version 1.0 --out {LONG}",
        f"traffic --model qwen3-8b --hardware h100 --request-rate 1 --trace {LONG}.csv",
        f"whatif --model {LONG}.json --hardware h100 --batch 1 --context 1k",
        f"sweep --model qwen3-8b --hardware h100 --batch 1 --context 1k --alpha 0.5 --output {LONG}.csv",
    ],
    ids=lambda command: command.replace(LONG, "n..."),
)
def test_a_name_that_no_file_can_have_is_one_short_line(command: str, capsys) -> None:
    assert cli.run(command.split()) == 2
    line = capsys.readouterr().err
    assert line.startswith("error: ")
    assert line.count("\n") == 1
    assert len(line) < 520


def test_a_command_answers_at_most_a_thousand_points(capsys: pytest.CaptureFixture[str]) -> None:
    contexts = ",".join(map(str, range(1000, 8000, 1000)))
    question = "whatif -m qwen3-8b --hardware h100 --gamma 0"
    assert cli.run(shlex.split(f"{question} -b 1..143 -c {contexts}")) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == (
        "error: --batch, --context, --gamma: at most 1000 points here, given 1001; "
        "`perfmodel sweep` takes more\n"
    )
    thousand = {"model": "qwen3-8b", "hardware": "h100", "batch": "1..500", "context": "1k,2k"}
    assert next(questions_of(Query, thousand, ("batch", "context"))).context == 1024
