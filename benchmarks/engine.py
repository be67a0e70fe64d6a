"""Time engine and decoder and rewrite docs/benchmarks.md: ``python benchmarks/engine.py`` (see README.md).

This process stays small: what it starts would otherwise be charged with its memory.
"""

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).parent
OUT = HERE.parent / "docs" / "benchmarks.md"
COUNTED = ("calls", "files", "forward passes")
SUBJECT = [
    "--model",
    "llama-3.1-8b",
    "--hardware",
    "a100-sxm-80gb",
    "--tp",
    "8",
    "--draft-kv",
    "streamingllm:512",
]
DEMO = [*SUBJECT, "--draft", "self", "--batch", "64", "--context", "32000", "--gamma", "2"]
FIRST = ["--model", "llama-3.1-8b", "--hardware", "h100", "--batch", "12", "--context", "32k"]
GRID = ["--batch", "1..10", "--context", "100..1000000+100", "--gamma", "1..10", "--alpha", "0.8"]
COLD_RUNS = 15
NUMPY = "numpy"
"""The process beside which cold starts are timed; the first one in each turn."""


@dataclass(frozen=True)
class Row:
    """One line of the table, as `parts.Row`."""

    what: str
    value: float
    unit: str
    target: float | None = None
    wall: float | None = None

    def cells(self, yardstick_s: float) -> list[str]:
        """What, measured, wall time, target, share of the target, multiple of the yardstick (times only)."""
        share = f"{self.value / self.target:.2f}" if self.target else ""
        factor = {"us": 1e-6, "ms": 1e-3, "s": 1.0}.get(self.unit)
        multiple = f"{self.value * factor / yardstick_s:.3g}" if factor else ""
        target = f"{self.target:g} {self.unit}" if self.target else ""
        wall = "" if self.wall is None else f"{self.wall:.3g} {self.unit}"
        return [self.what, f"{self.value:.3g} {self.unit}", wall, target, share, multiple]


@dataclass(frozen=True)
class Ended:
    """A process that ended: its processor and wall time, its peak memory and its output."""

    processor_s: float
    wall_s: float
    megabytes: float
    output: str


def child(*command: str, **environment: str) -> Ended:
    """One process."""
    env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"} | environment
    started = time.perf_counter()
    with subprocess.Popen([sys.executable, *command], env=env, stdout=subprocess.PIPE, text=True) as process:
        out = process.stdout.read() if process.stdout else ""
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command}: exit status {process.returncode}")
    wall_s = time.perf_counter() - started
    return Ended(usage.ru_utime + usage.ru_stime, wall_s, usage.ru_maxrss / 1024, out)


def part(name: str) -> list[Row]:
    """Rows that parts.py measures."""
    return [Row(*row) for row in json.loads(child(str(HERE / "parts.py"), name).output)]


def cold() -> list[Row]:
    """`perfmodel whatif` as a process, beside a bare import of numpy, taken in turns. Both on one thread: the
    threads that numpy starts count as processor time, and the command starts none.
    """
    commands = {
        NUMPY: ("-c", "import numpy"),
        "perfmodel whatif": ("-m", "perfmodel", "whatif", *DEMO),
        "perfmodel whatif --json": ("-m", "perfmodel", "whatif", *DEMO, "--json"),
        "README's first what-if": ("-m", "perfmodel", "whatif", *FIRST),
    }
    ended: dict[str, list[Ended]] = {name: [] for name in commands}
    with tempfile.TemporaryDirectory() as cache:
        for run in range(COLD_RUNS + 1):
            for name, command in commands.items():
                process = child(*command, PYTHONPYCACHEPREFIX=cache, OPENBLAS_NUM_THREADS="1")
                if run:  # the first fills the cache
                    ended[name].append(process)
    numpy_s = statistics.median([each.processor_s for each in ended[NUMPY]])
    numpy_wall_s = statistics.median([each.wall_s for each in ended[NUMPY]])
    rows = [Row('cold: python -c "import numpy"', numpy_s * 1e3, "ms", wall=numpy_wall_s * 1e3)]
    for name in list(commands)[1:]:
        processor_s = statistics.median([each.processor_s for each in ended[name]])
        wall_s = statistics.median([each.wall_s for each in ended[name]])
        over = processor_s / numpy_s
        rows.append(Row(f"cold: {name}", processor_s, "s", 0.3, wall_s))
        rows.append(
            Row(
                f"cold: {name}, relative to the time to import numpy",
                over,
                "x numpy",
                2.6,
                wall_s / numpy_wall_s,
            )
        )
        megabytes = max(each.megabytes for each in ended[name])
        rows.append(Row(f"cold: {name}, peak memory", megabytes, "MB", 90))
    return rows


def sweep() -> list[Row]:
    """A million rows to CSV, and the memory of that."""
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder) / "out.csv")
        process = child("-m", "perfmodel", "sweep", *SUBJECT, *GRID, "--output", out)
    return [
        Row(
            "time per row when a sweep writes 1,000,000 rows to CSV",
            process.processor_s,
            "us",
            3,
            process.wall_s,
        ),
        Row("peak memory while a sweep writes 1,000,000 rows to CSV", process.megabytes, "MB"),
    ]


def table(heads: list[str], rows: list[list[str]]) -> str:
    """In Markdown, all but the first column to the right."""
    lines = [heads, [":--", *["--:"] * (len(heads) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def page(rows: list[Row], counts: dict[str, dict[str, int]]) -> str:
    """The page of the docs."""
    yardstick_s = rows[0].value * 1e-3
    times = table(
        ["task", "processor time", "wall time", "target", "time / target", "time / yardstick"],
        [row.cells(yardstick_s) for row in rows],
    )
    taken = table(
        ["what-if", *COUNTED], [[name, *(str(of[what]) for what in COUNTED)] for name, of in counts.items()]
    )
    machine = f"{os.cpu_count()} CPU cores ({platform.machine()}), Python {platform.python_version()}"
    load = os.getloadavg()[1]
    return (
        "<!-- Written by benchmarks/engine.py: `make bench`. -->\n\n# Speed and size\n\n"
        "This page lists the time and the memory that answers need, as measured in one run on "
        f"{machine}, numpy {version('numpy')}, with a load average of {load:.1f}. A timed answer "
        "contains the times of all passes, the speedup, the throughput and the best gamma up to 16. All "
        "times are medians. The targets apply to processor time; on an idle machine, wall time is the same. "
        f"A cold start is the median of {COLD_RUNS} new processes with compiled "
        f"byte code.\n\n{times}\n\n"
        "The next table counts what one what-if and one question about traffic need: calls of Python "
        "functions, files of this package that contain these functions, and computed forward passes. The "
        "counts are the same on every machine. A test fails if the number of files or passes differs from "
        "this table, or if the number of calls differs by more than 5 %.\n\n"
        f"{taken}\n"
    )


def main() -> None:
    """Measure, print, write."""
    rows = [*part("warm"), *part("million"), *cold(), *sweep(), *part("decoder")]
    text = page(rows, json.loads(child(str(HERE / "counts.py")).output))
    OUT.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
