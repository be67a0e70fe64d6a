"""What a user can get wrong: exit status 2, one line on stderr that names the place, and no traceback."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import perfmodel as pm
from perfmodel import cli
from perfmodel.errors import InputError
from tests.commands import refused

GOOD = {
    "--model": "llama-3.1-8b", "--hardware": "a100-sxm-80gb", "--tp": "8", "--batch": "64", "--context": "32000",
    "--draft-kv": "streamingllm:512", "--gamma": "2", "--alpha": "0.8",
}  # fmt: skip


def whatif(**changed: str | None) -> list[str]:
    """A good question with some flags changed (None: left out)."""
    flags = GOOD | {f"--{name.replace('_', '-')}": value for name, value in changed.items()}
    return ["whatif", *(part for flag, value in flags.items() if value is not None for part in (flag, value))]


BAD: list[tuple[dict[str, str | None], str]] = [
    ({"model": "lama-3.1-8b"}, "--model: no model named 'lama-3.1-8b'; did you mean llama-3.1-8b"),
    ({"model": "/nowhere/config.json"}, "config.json: must be a readable file, and there is no file of this name"),
    ({"hardware": "h10"}, "--hardware: no device named 'h10'; did you mean h100"),
    ({"hardware": "/dev/null"}, "something else of this name"),
    ({"calibration": "ideel"}, "--calibration: no calibration named 'ideel'; did you mean ideal"),
    ({"draft": "tinylama"}, "--draft: no model named 'tinylama'; did you mean tinyllama"),
    ({"draft": "llama-160m", "draft_tp": "8"}, "--draft-tp: must divide the 12 query heads"),
    ({"draft_kv": "snapkvv:512"}, "--draft-kv: no KV method named 'snapkvv'; did you mean snapkv"),
    ({"draft_kv": "streamingllm"}, "--draft-kv: streamingllm needs budget"),
    ({"draft_kv": "streamingllm:4"}, "tokens above 4"),
    ({"draft_kv": "streamingllm:nan"}, "a positive number such as 512"),
    ({"draft_kv": "streamingllm:512,sink=4"}, "has no option 'sink'"),
    ({"weights": "bf17"}, "--weights: no weight format named 'bf17'; did you mean bf16"),
    ({"weights": "fp8"}, "--weights: a100-sxm-80gb has no published fp8 peak; it has fp32, bf16, int8"),
    ({"draft_weights": "fp8"}, "--draft-weights: a100-sxm-80gb has no published fp8 peak"),
    ({"kv_dtype": "fp9"}, "--kv-dtype: no KV format named 'fp9'; did you mean fp8"),
    ({"tp": "3"}, "--tp: must divide the 32 query heads of llama-3.1-8b"),
    ({"tp": "16"}, "--tp: calibration a100-sxm-80gb.vllm has all-reduce times for 2, 4, 8 devices, given 16"),
    ({"draft_tp": "16"}, "--draft-tp: must be at most the target's --tp 8, given 16"),
    ({"draft_tp": "3.5"}, "--draft-tp: must be a positive whole number such as 8 or 32k (32768), given '3.5'"),
    *(({"batch": text}, "--batch: must be ") for text in ("0", "-4", "nan", "inf", "2.5", "")),
    *(({"context": text}, "--context: must be ") for text in ("0", "-32000", "NaN", "infinity", "9" * 15)),
    *(({"gamma": text}, "--gamma: must be ") for text in ("-1", "1.5", "2000")),
    *(({"max_gamma": text}, "--max-gamma: must be ") for text in ("-1", "many", "2000")),
    *(({"alpha": text}, "--alpha: must be a") for text in ("1.01", "-0.1", "nan", "likely")),
    ({"tokens_per_iteration": "2.0"}, "--alpha and --tokens-per-iteration: only one of them may be given"),
    ({"alpha": None, "tokens_per_iteration": "4"}, "--tokens-per-iteration: must be a number from 1 to gamma + 1 = 3"),
    ({"alpha": None, "tokens_per_iteration": "2", "gamma": "auto"}, "--tokens-per-iteration: needs --gamma N"),
    ({"alpha": None, "tokens_per_iteration": "1", "gamma": "0"}, "must be measured at --gamma 1 or more"),
    ({"alpha": None, "acceptance": "nowhere.yaml"}, "nowhere.yaml"),
    ({"kv_reread": "0.5"}, "--kv-reread: must be a number from 1"),
    ({"kv_reread": "4"}, "--kv-reread: must be at most gamma + 1 = 3"),
    *(({"memory_fraction": text}, "--memory-fraction: must be a ") for text in ("0", "1.5", "nan", "most")),
    *(({"batch_range": text}, "--batch-range: must be ") for text in ("256..32", "32", "a..b")),
]


@pytest.mark.parametrize(("changed", "said"), BAD)
def test_refused_with_one_line_that_names_the_flag_here_and_the_argument_in_python(changed, said, capsys) -> None:
    line = refused(capsys, *whatif(**changed))
    assert said in line
    given = {flag[2:].replace("-", "_"): value for flag, value in GOOD.items()} | changed
    with pytest.raises(InputError) as caught:
        pm.whatif(**given)
    if not {"batch", "context", "gamma"} & set(changed):  # where the command takes lists, and says so
        assert f"error: {caught.value.as_flags}\n" == line
    named = re.match(r"error: --([a-z-]+):", line)
    if named:
        assert str(caught.value).startswith(f"{named[1].replace('-', '_')}: ")


@pytest.mark.parametrize(("changed", "said"), [
    ({"tp": "4,8"}, "--tp: must be one value here, given 2; `perfmodel sweep` takes lists"),
    ({"model": "llama-3.1-8b,qwen3-8b"}, "`perfmodel sweep` takes lists"),
    ({"alpha": None, "tokens_per_iteration": "2", "gamma": "1,auto"}, "--gamma"),
    ({"model": None}, "--model"),
    ({"context": None}, "--context"),
    ({"kontext": "1"}, "--kontext"),
])  # fmt: skip
def test_what_only_a_command_line_can_get_wrong(changed, said, capsys) -> None:
    assert said in refused(capsys, *whatif(**changed))


def test_other_verbs_refuse_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, said in (
        (["wahtif"], "did you mean whatif"),
        (["validate", "measur"], "did you mean measure"),
        (["ops", *whatif()[1:], "--pass", "prefill"], "--stage: no pass named 'prefill'"),
        (["inverse", *whatif()[1:], "--speedup", "nan"], "--speedup"),
        (["inverse", *whatif(gamma="0")[1:]], "--gamma"),
        (["inflection", *whatif(context=None, alpha=None)[1:]], "--context"),
        (["sweep", *whatif()[1:], "--output", str(tmp_path / "grid.xlsx")], ".parquet"),
        (["sweep", *whatif()[1:], "--output", str(tmp_path / "no" / "grid.csv")], "folder"),
        (["gpus", "remove"], "known: check, list, show"),
    ):
        assert said in refused(capsys, *words)


@pytest.mark.parametrize("verb", ["show", "check"])
def test_a_catalogue_names_its_argument_not_a_flag_of_another_verb(verb: str, capsys) -> None:
    for kind, typo, argument, meant in (
        ("gpus", "h10", "NAME|PATH", "h100"), ("models", "lama-3.1-8b", "NAME|PATH", "llama-3.1-8b"),
        ("calibrations", "ideel", "NAME|PATH", "ideal"), ("kv", "qest", "METHOD[:BUDGET]", "quest"),
    ):  # fmt: skip
        said = refused(capsys, kind, verb, typo)
        assert said.startswith(f"error: {argument}: no ")
        assert f"did you mean {meant}" in said


@pytest.mark.parametrize("flag", ["model", "hardware", "calibration", "acceptance"])
def test_hostile_files_are_refused(flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every way to spoil a file is tried in tests/specs/test_bad_specs.py; here each flag has one of either kind."""
    for name, text in (("tag.yaml", "!!python/object/apply:os.system ['true']\n"), ("deep.json", "[" * 100_000)):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        changed: dict[str, str | None] = {flag: str(path)} | ({"alpha": None} if flag == "acceptance" else {})
        assert name in refused(capsys, *whatif(**changed))


def test_an_unknown_key_names_file_key_and_what_is_allowed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("name: mine\nbandwith: 3\n", encoding="utf-8")
    for arguments in (whatif(hardware=str(path)), ["gpus", "check", str(path)]):
        said = refused(capsys, *arguments)
        assert "mine.yaml" in said
        assert "bandwith" in said
        assert "allowed keys: name, title" in said


def test_a_closed_pipe_is_quiet() -> None:
    command = f"{shlex.quote(sys.executable)} -m perfmodel models list --json | head -c 10"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert len(done.stdout) == 10


def lacking(module: str) -> ModuleNotFoundError:
    return ModuleNotFoundError(f"No module named {module!r}", name=module)


@pytest.mark.parametrize(("error", "status", "told"), [
    (lacking("torch"), 2, r"error: perfmodel validate: needs torch, .* in a clone, pip install '\.\[validate\]'\n"),
    (lacking("scipy.optimize"), 2, r"error: perfmodel validate: needs scipy, .* pip install '\.\[fit\]'\n"),
    (MemoryError(), 2, "error: out of memory: ask for fewer points at a time\n"),
    (BrokenPipeError(), 1, ""),
    (KeyboardInterrupt(), 130, ""),
    (lacking("perfmodel.gone"), None, ""),
    (ZeroDivisionError(), None, ""),
], ids=lambda value: type(value).__name__)  # fmt: skip
def test_what_ends_a_command(error: BaseException, status: int | None, told: str, monkeypatch, capsys) -> None:
    """A line where the user can do something, nothing where he stopped it; a bug (None) keeps its traceback."""

    def end(_: str) -> None:
        raise error

    monkeypatch.setattr(cli, "import_module", end)
    if status is None:
        with pytest.raises(type(error)):
            cli.run(["validate"])
    else:
        assert cli.run(["validate"]) == status
        assert re.fullmatch(told, capsys.readouterr().err)
