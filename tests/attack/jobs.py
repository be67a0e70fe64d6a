"""The runs that are attacked: what each is asked, what it must leave behind, and what counts as kept."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from perfmodel.specs.calibration import load_calibration
from perfmodel.validate.accuracy.check import read_baseline
from perfmodel.validate.engine.record import read_engine_record
from perfmodel.validate.records.store import read_record
from tests.validate.tiny_plan import write as write_plan

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Job:
    """A command in a folder of its own.

    arguments: of a first and of a further attempt. whole: what is wrong with a finished file. same: whether a run that
    was interrupted ends with the bytes of one that was not. rows: finished rows that the folder holds.
    """

    name: str
    arguments: Callable[[Path, bool], list[str]]
    result: str
    whole: Callable[[Path], str | None]
    same: bool
    rows: Callable[[Path], set[str]] = lambda folder: set()

    def results(self, folder: Path) -> list[Path]:
        """Its finished files."""
        return sorted(folder.glob(self.result))


def _sweep(suffix: str) -> Callable[[Path, bool], list[str]]:
    def arguments(folder: Path, again: bool) -> list[str]:
        asked = ["--model", "llama-3.1-8b", "--hardware", "h100", "--batch", "1..16", "--context", "1000..64000+1000"]
        drafts = ["--draft-kv", "full,streamingllm:512,quest:1024,snapkv:512,tova:512", "--alpha", "0.6,0.8"]
        return ["sweep", *asked, *drafts, "--gamma", "1..3", "-o", str(folder / f"out{suffix}")]

    return arguments


def _measure(folder: Path, again: bool) -> list[str]:
    if not (folder / "plan.yaml").exists():
        write_plan(folder)
    resume = ["--resume"] if again and any(folder.glob("t-1/*.journal")) else []
    return ["validate", "measure", str(folder / "plan.yaml"), "--machine", "t-1", "--results", str(folder), *resume]


def _engine(url: str) -> Callable[[Path, bool], list[str]]:
    def arguments(folder: Path, again: bool) -> list[str]:
        asked = "--model llama-68m --hardware h100 --draft ngram --calibration ideal --batches 1,2 --prompts 8,16"
        load = [*asked.split(), "--new-tokens", "12", "--machine", "t-1", "--results", str(folder)]
        resume = ["--resume"] if again and any(folder.glob("t-1/*.journal")) else []
        return ["validate", "engine", *load, "--url", url, *resume]

    return arguments


def _engine_files(folder: Path, again: bool) -> list[str]:
    """From the records of a server without a draft and with one."""
    held = ROOT / "results/cpu-engine"
    asked = ["--model", f"{held}/target.json", "--draft", f"{held}/draft.json", "--hardware", f"{held}/device.yaml"]
    for path in sorted(held.glob("engine-*-K[03].json")):
        asked += ["--from", str(path)]
    return ["validate", "engine", *asked, "--calibration", "ideal", "--out", str(folder / "out.yaml")]


def _check(folder: Path, again: bool) -> list[str]:
    return ["validate", "check", "--results", f"{ROOT}/results/cpu-1", "--baseline", f"{folder}/out.json", "--write"]


def _read_by(read: Callable[[Path], object]) -> Callable[[Path], str | None]:
    def whole(path: Path) -> str | None:
        try:
            read(path)
        except Exception as error:
            return f"{path.name} is no whole file: {str(error)[:120]}"
        return None

    return whole


def _table(path: Path) -> object:
    import pandas

    return (pandas.read_csv if path.suffix == ".csv" else pandas.read_parquet)(path)


def _journalled(folder: Path) -> set[str]:
    """Rows on the disk, of journals (whole lines) and records."""
    found: set[str] = set()
    for path in folder.glob("t-1/*.journal"):
        found |= {line.partition(b" ")[2].decode() for line in path.read_bytes().split(b"\n")[1:-1]}
    for path in folder.glob("t-1/*.json"):
        lines = path.read_text(encoding="utf-8").split("\n")
        found |= {line.rstrip(",") for line in lines if line.startswith('{"key"')}
    return found


def jobs(url: str) -> tuple[Job, ...]:
    """What is attacked."""
    return (
        Job("sweep to CSV", _sweep(".csv"), "out.csv", _read_by(_table), True),
        Job("measure", _measure, "t-1/*.json", _read_by(read_record), False, _journalled),
        Job("engine, live", _engine(url), "t-1/*.json", _read_by(read_engine_record), False, _journalled),
        Job("engine, from files", _engine_files, "out.yaml", _read_by(lambda path: load_calibration(str(path))), True),
        Job("check --write", _check, "out.json", _read_by(read_baseline), True),
    )
