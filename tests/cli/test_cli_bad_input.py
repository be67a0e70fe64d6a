"""What a user can get wrong: exit status 2, one line on stderr that names the place, and no traceback."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from perfmodel import cli

GOOD = {
    "--model": "llama-3.1-8b",
    "--hardware": "a100-sxm-80gb",
    "--tp": "8",
    "--batch": "64",
    "--context": "32000",
    "--draft-kv": "streamingllm:512",
    "--gamma": "2",
    "--alpha": "0.8",
}


def whatif(**changed: str | None) -> list[str]:
    """A good question with some flags changed (None: left out)."""
    flags = GOOD | {f"--{name.replace('_', '-')}": value for name, value in changed.items()}
    return ["whatif", *(part for flag, value in flags.items() if value is not None for part in (flag, value))]


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that a refused command prints."""
    assert cli.run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert err.endswith("\n")
    assert "Traceback" not in err
    return err


BAD = [
    ({"model": "lama-3.1-8b"}, "did you mean llama-3.1-8b"),
    ({"hardware": "h10"}, "did you mean h100"),
    ({"calibration": "ideel"}, "did you mean ideal"),
    ({"draft": "tinylama"}, "did you mean tinyllama"),
    ({"draft_kv": "snapkvv:512"}, "did you mean snapkv"),
    ({"weights": "bf17"}, "did you mean bf16"),
    ({"kv_dtype": "fp9"}, "did you mean fp8"),
    ({"accounting": "raged"}, "did you mean ragged"),
    ({"weights": "fp8"}, "has no published fp8 peak"),
    ({"draft_weights": "fp8"}, "--draft-weights"),
    ({"tp": "3"}, "must divide the 32 query heads"),
    ({"tp": "0"}, "--tp"),
    ({"tp": "4,8"}, "sweep"),
    ({"draft_tp": "16"}, "at most the target's --tp 8"),
    ({"batch": "0"}, "--batch"),
    ({"batch": "-4"}, "--batch"),
    ({"batch": "nan"}, "--batch"),
    ({"batch": "inf"}, "--batch"),
    ({"batch": "2.5"}, "--batch"),
    ({"batch": ""}, "--batch"),
    ({"context": "0"}, "--context"),
    ({"context": "-32000"}, "--context"),
    ({"context": "NaN"}, "--context"),
    ({"context": "infinity"}, "--context"),
    ({"context": "9" * 15}, "--context"),
    ({"gamma": "-1"}, "--gamma"),
    ({"gamma": "1.5"}, "--gamma"),
    ({"gamma": "2000"}, "--gamma"),
    ({"max_gamma": "-1"}, "--max-gamma"),
    ({"max_gamma": "many"}, "--max-gamma"),
    ({"alpha": "1.01"}, "--alpha"),
    ({"alpha": "-0.1"}, "--alpha"),
    ({"alpha": "nan"}, "--alpha"),
    ({"alpha": "likely"}, "--alpha"),
    ({"tokens_per_iteration": "2.0"}, "only one"),
    ({"alpha": None, "tokens_per_iteration": "4"}, "gamma + 1"),
    (
        {"alpha": None, "tokens_per_iteration": "nan"},
        "--tokens-per-iteration: must be a number from 1 to gamma + 1 = 3",
    ),
    ({"alpha": None, "tokens_per_iteration": "2", "gamma": "auto"}, "--gamma"),
    ({"alpha": None, "tokens_per_iteration": "2", "gamma": "1,2"}, "--gamma"),
    ({"alpha": None, "acceptance": "nowhere.yaml"}, "nowhere.yaml"),
    ({"alpha": None, "draft_kv": "snapkv:777"}, "no acceptance measured"),
    ({"alpha": None, "context": "500k"}, "was measured at"),
    ({"kv_reread": "0.5"}, "--kv-reread"),
    ({"kv_reread": "4"}, "at most gamma + 1"),
    ({"kv_reread": "nan"}, "--kv-reread"),
    ({"memory_fraction": "0"}, "--memory-fraction"),
    ({"memory_fraction": "1.5"}, "--memory-fraction"),
    ({"memory_fraction": "nan"}, "--memory-fraction"),
    ({"batch_range": "256..32"}, "--batch-range"),
    ({"new_tokens": "0"}, "--new-tokens"),
    ({"draft_kv": "streamingllm"}, "needs budget"),
    ({"draft_kv": "streamingllm:0"}, "budget"),
    ({"draft_kv": "streamingllm:-5"}, "budget"),
    ({"draft_kv": "streamingllm:512,sink=4"}, "sink"),
    ({"model": "/nowhere/config.json"}, "config.json: must be a readable file, and there is no file of this name"),
    ({"hardware": "/dev/null"}, "something else of this name"),
    ({"hardware": "./nowhere.yaml"}, "nowhere.yaml"),
    ({"model": ""}, "--model"),
    ({"model": "llama-3.1-8b,qwen3-8b"}, "sweep"),
    ({"model": None}, "--model"),
    ({"context": None}, "--context"),
    ({"kontext": "1"}, "--kontext"),
]


@pytest.mark.parametrize(
    ("changed", "said"), BAD, ids=[" ".join(f"{k}={v}" for k, v in c.items())[:40] for c, _ in BAD]
)
def test_refused_with_one_line(changed: dict[str, str | None], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert said in refused(whatif(**changed), capsys)


def test_other_verbs_refuse_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "did you mean whatif" in refused(["wahtif"], capsys)
    assert "did you mean measure" in refused(["validate", "measur"], capsys)
    assert "--pass" in refused(["ops", *whatif()[1:], "--pass", "prefill"], capsys)
    assert "--speedup" in refused(["inverse", *whatif()[1:], "--speedup", "nan"], capsys)
    assert "--gamma" in refused(["inverse", *whatif(gamma="0")[1:]], capsys)
    assert "--gamma" in refused(["inflection", *whatif(gamma="auto")[1:]], capsys)
    assert "--context" in refused(["inflection", *whatif(context=None, alpha=None)[1:]], capsys)
    assert ".parquet" in refused(["sweep", *whatif()[1:], "--output", str(tmp_path / "grid.xlsx")], capsys)
    assert "folder" in refused(["sweep", *whatif()[1:], "--output", str(tmp_path / "no" / "grid.csv")], capsys)
    assert "known: check, list, show" in refused(["gpus", "remove"], capsys)


@pytest.mark.parametrize("verb", ["show", "check"])
@pytest.mark.parametrize(
    ("kind", "typo", "argument", "meant"),
    [
        ("gpus", "h10", "NAME|PATH", "h100"),
        ("models", "lama-3.1-8b", "NAME|PATH", "llama-3.1-8b"),
        ("calibrations", "ideel", "NAME|PATH", "ideal"),
        ("kv", "qest", "METHOD[:BUDGET]", "quest"),
    ],
)
def test_a_catalogue_names_its_argument_not_a_flag_of_another_verb(
    verb: str, kind: str, typo: str, argument: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused([kind, verb, typo], capsys)
    assert said.startswith(f"error: {argument}: no ")
    assert f"did you mean {meant}" in said


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"max_gamma": "many"}, "--max-gamma: must be a valid integer, given 'many'"),
        ({"draft_tp": "3.5"}, "--draft-tp: must be a valid integer, given '3.5'"),
        ({"kv_reread": "twice"}, "--kv-reread: must be a valid number, given 'twice'"),
        ({"memory_fraction": "most"}, "--memory-fraction: must be a valid number, given 'most'"),
        ({"kv_page": "4q"}, "--kv-page: must be a positive whole number such as 8 or 32k (32768), given '4q'"),
        ({"new_tokens": "0"}, "--new-tokens: must be a positive whole number such as 8 or 32k (32768), given '0'"),
    ],
)
def test_a_number_that_is_none_is_shown(
    changed: dict[str, str | None], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in refused(whatif(**changed), capsys)


def test_an_unreadable_number_of_any_verb_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["inverse", *whatif()[1:], "--speedup", "z"], ["advise", "--max-tpot-ms", "z"]):
        assert f"{arguments[-2]}: must be a valid number, given 'z'" in refused(arguments, capsys)


BOMB = "a: &a [x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a]\nc: [*b, *b, *b, *b]\n"
HOSTILE = {
    "tab.yaml": "name:\t- {",
    "list.yaml": "- 1\n- 2\n",
    "empty.yaml": "",
    "bomb.yaml": BOMB,
    "tag.yaml": "!!python/object/apply:os.system ['true']\n",
    "twice.yaml": "name: a\nname: b\n",
    "deep.yaml": "[" * 5000,
    "binary.yaml": "\x00\x01",
    "nan.json": '{"hidden_size": NaN}',
    "torn.json": '{"model_type": "llama", "hidden_size": ',
    "deep.json": "[" * 100_000,
    "array.json": "[1, 2]",
    "unknown.json": json.dumps({"model_type": "rwkv", "hidden_size": 8}),
    "missing.json": json.dumps({"model_type": "llama", "hidden_size": 4096}),
    "negative.json": json.dumps({"model_type": "llama", "hidden_size": -1, "num_hidden_layers": 2}),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("flag", ["model", "hardware", "calibration", "acceptance"])
def test_hostile_files_are_refused(name: str, flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / name
    path.write_text(HOSTILE[name], encoding="utf-8")
    changed: dict[str, str | None] = {flag: str(path)} | ({"alpha": None} if flag == "acceptance" else {})
    assert name in refused(whatif(**changed), capsys)


def test_an_unknown_key_names_file_key_and_what_is_allowed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("name: mine\nbandwith: 3\n", encoding="utf-8")
    for arguments in (whatif(hardware=str(path)), ["gpus", "check", str(path)]):
        said = refused(arguments, capsys)
        assert "mine.yaml" in said
        assert "bandwith" in said
        assert "allowed keys: name, title" in said


def test_as_a_process_there_is_no_traceback() -> None:
    question = shlex.join(whatif(batch="0"))
    done = subprocess.run(
        [sys.executable, "-m", "perfmodel", *shlex.split(question)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("error: --batch: must be ")


def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    from perfmodel.cli import whatif as module

    def broken(query: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(module, "answer", broken)
    with pytest.raises(ZeroDivisionError):
        cli.run(whatif())


def test_interrupted_is_130(monkeypatch: pytest.MonkeyPatch) -> None:
    from perfmodel.cli import whatif as module

    def interrupted(query: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "answer", interrupted)
    assert cli.run(whatif()) == 130


def test_a_closed_pipe_is_quiet() -> None:
    command = f"{shlex.quote(sys.executable)} -m perfmodel models list --json | head -c 10"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert len(done.stdout) == 10
