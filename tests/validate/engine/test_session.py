"""Sessions with a server that fails on the way: what is resumed, and which prompts are sent."""

import shutil
from pathlib import Path

import pytest

from perfmodel.cli import run
from perfmodel.validate.engine.driver import TRIAL
from perfmodel.validate.engine.record import read_engine_record
from perfmodel.validate.engine.session import PartialRun
from tests.validate.engine.server import Engine, OutOfBlocks, serving


def session(folder: Path, engine: Engine, *more: str, model: str = "llama-68m") -> int:
    """The exit status of a session of one point per prompt of 8 and 16 tokens."""
    point = "--hardware h100 --draft ngram --calibration ideal --batches 1 --prompts 8,16 --new-tokens 16"
    with serving(engine) as url:
        ask = ["--model", model, *point.split(), "--machine", "here-1", "--results", str(folder)]
        return run(["validate", "engine", "--url", url, *ask, *more])


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """The journal of a session in which the longer prompts failed."""
    assert session(tmp_path, OutOfBlocks({16})) == 1
    (path,) = tmp_path.rglob("engine-*-K0.journal")
    return path


def test_the_session_of_another_model_is_not_resumed(journal: Path, tmp_path: Path, capsys) -> None:
    before = journal.read_bytes()
    capsys.readouterr()
    assert session(tmp_path, Engine(), "--resume", model="qwen3-0.6b") == 2
    says = f"--resume: {journal} has another model, draft or engine: start a new run"
    assert says in " ".join(capsys.readouterr().err.split())
    assert journal.read_bytes() == before


def test_of_two_sessions_the_later_one_is_resumed(journal: Path, tmp_path: Path) -> None:
    older = journal.with_name("engine-20200101T000000Z-K0.journal")
    shutil.copy(journal, older)
    assert session(tmp_path, Engine(), "--resume") == 0
    assert older.exists()
    assert not journal.exists()
    record = read_engine_record(journal.with_suffix(".json"))
    assert [point.status for point in record.points] == ["ok", "ok"]


def prompts_of(folder: Path, engine: Engine) -> set[tuple[int, ...]]:
    """The prompts that a session sends, without that of the trial request."""
    assert session(folder, engine) == 0
    return {tuple(each["prompt"]) for each in engine.requests if each["max_tokens"] != TRIAL.tokens}


def test_prompts_are_the_same_in_each_session_and_others_with_another_draft_length(tmp_path: Path) -> None:
    """A server that caches prefixes finds none of another draft length."""
    first = prompts_of(tmp_path / "first", Engine())
    assert {len(prompt) for prompt in first} == {8, 16}
    assert first == prompts_of(tmp_path / "again", Engine())
    assert first.isdisjoint(prompts_of(tmp_path / "drafted", Engine(gamma=2)))


@pytest.mark.parametrize(
    ("errors", "says"),
    [
        (("full", "full", None), "2 of 3 points failed: full"),
        (("late", "full", "full", None), r"3 of 4 points failed \(2 of them\): full"),
    ],
)
def test_a_partial_run_names_its_most_frequent_error(errors: tuple[str | None, ...], says: str) -> None:
    rows = [{"status": "failed", "error": error} if error else {"status": "ok"} for error in errors]
    with pytest.raises(PartialRun, match=f"^{says}$"):
        raise PartialRun(Path("record.json"), rows)
