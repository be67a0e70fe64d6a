"""The runs that are attacked: what each is asked, what it must leave behind, and what counts as kept."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas

from perfmodel.specs import load_calibration
from perfmodel.validate.accuracy.check import read_baseline
from perfmodel.validate.engine.record import read_engine_record
from perfmodel.validate.records import read_record
from tests.validate.tiny_plan import write_plan

ROOT = Path(__file__).parents[2]
SWEEP = """sweep --model llama-3.1-8b --hardware h100 --batch 1..16 --context 1000..64000+1000
--draft-kv full,streamingllm:512,quest:1024,snapkv:512,tova:512 --alpha 0.6,0.8 --gamma 1..3
-o {at}/out.csv"""
LIVE = """validate engine --model llama-68m --hardware h100 --draft ngram --calibration ideal --batches 1,2
--prompts 8,16 --new-tokens 12 --machine t-1 --results {at} --url"""
HELD = ROOT / "results" / "cpu-engine"
FILES = f"""validate engine --model {HELD}/target.json --draft {HELD}/draft.json --hardware {HELD}/device.yaml
--calibration ideal --out {{at}}/out.yaml"""
"""From the records of a server without a draft and with one."""


@dataclass(frozen=True)
class Job:
    """A command in a folder of its own.

    line: what is typed, ``{at}`` being the folder. read: raises where a finished file is no whole one.
    resumes: whether a run that was interrupted goes on from a journal; one that begins anew ends with the
    bytes of an undisturbed one.
    """

    name: str
    line: str
    result: str
    read: Callable[[Path], object]
    resumes: bool = False

    def arguments(self, folder: Path) -> list[str]:
        """Of a first or a further attempt."""
        resume = ["--resume"] if any(folder.glob("t-1/*.journal")) else []
        return [*self.line.format(at=folder).split(), *resume]

    def results(self, folder: Path) -> list[Path]:
        """Its finished files."""
        return sorted(folder.glob(self.result))

    def half(self, folder: Path) -> str | None:
        """Which of them is no whole file."""
        for path in self.results(folder):
            try:
                self.read(path)
            except Exception as error:
                return f"{path.name} is no whole file: {str(error)[:120]}"
        return None


def rows(folder: Path) -> set[str]:
    """Finished rows on the disk, of journals (whole lines) and records."""
    written: set[str] = set()
    for path in folder.glob("t-1/*.journal"):
        written |= {line.partition(b" ")[2].decode() for line in path.read_bytes().split(b"\n")[1:-1]}
    for path in folder.glob("t-1/*.json"):
        lines = path.read_text(encoding="utf-8").split("\n")
        written |= {line.rstrip(",") for line in lines if line.startswith("{") and '"key":' in line}
    return written


def jobs(url: str, folder: Path) -> tuple[Job, ...]:
    """What is attacked. url: of a server. folder: where a plan may lie."""
    measure = f"validate measure {write_plan(folder)} --machine t-1 --results {{at}}"
    files = " --from ".join([FILES, *map(str, sorted(HELD.glob("engine-*-K[03].json")))])
    check = f"validate check --results {ROOT}/results/cpu-1 --baseline {{at}}/out.json --write"
    return (
        Job("sweep to CSV", SWEEP, "out.csv", pandas.read_csv),
        Job("measure", measure, "t-1/*.json", read_record, resumes=True),
        Job("engine, live", f"{LIVE} {url}", "t-1/*.json", read_engine_record, resumes=True),
        Job("engine, from files", files, "out.yaml", lambda path: load_calibration(str(path))),
        Job("check --write", check, "out.json", read_baseline),
    )
