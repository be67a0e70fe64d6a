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


@dataclass(frozen=True)
class Row:
    """One line of the table; `target` and `value` in the same unit."""

    what: str
    value: float
    unit: str
    target: float | None = None

    def cells(self, yardstick_s: float) -> list[str]:
        """What, measured, target, share of the target, multiple of the yardstick (times only)."""
        share = f"{self.value / self.target:.2f}" if self.target else ""
        factor = {"us": 1e-6, "ms": 1e-3, "s": 1.0}.get(self.unit)
        multiple = f"{self.value * factor / yardstick_s:.3g}" if factor else ""
        target = f"{self.target:g} {self.unit}" if self.target else ""
        return [self.what, f"{self.value:.3g} {self.unit}", target, share, multiple]


def child(*command: str, **environment: str) -> tuple[float, float, str]:
    """Processor seconds, peak megabytes and output of one process."""
    env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"} | environment
    with subprocess.Popen([sys.executable, *command], env=env, stdout=subprocess.PIPE, text=True) as process:
        out = process.stdout.read() if process.stdout else ""
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command}: exit status {process.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, out


def part(name: str) -> list[Row]:
    """Rows that parts.py measures."""
    return [Row(*row) for row in json.loads(child(str(HERE / "parts.py"), name)[2])]


def cold() -> list[Row]:
    """`perfmodel whatif` as a process, beside a bare import of numpy, taken in turns. Both on one thread: the
    threads that numpy starts count as processor time, and the command starts none.
    """
    commands = {
        "numpy": ("-c", "import numpy"),
        "perfmodel whatif": ("-m", "perfmodel", "whatif", *DEMO),
        "perfmodel whatif --json": ("-m", "perfmodel", "whatif", *DEMO, "--json"),
        "README's first what-if": ("-m", "perfmodel", "whatif", *FIRST),
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    peak = dict.fromkeys(commands, 0.0)
    with tempfile.TemporaryDirectory() as cache:
        for run in range(COLD_RUNS + 1):
            for name, command in commands.items():
                seconds, megabytes, _ = child(*command, PYTHONPYCACHEPREFIX=cache, OPENBLAS_NUM_THREADS="1")
                peak[name] = max(peak[name], megabytes)
                if run:  # the first fills the cache
                    times[name].append(seconds)
    base = statistics.median(times["numpy"])
    rows = [Row('cold: python -c "import numpy"', base * 1e3, "ms")]
    for name in list(commands)[1:]:
        rows.append(Row(f"cold: {name}", statistics.median(times[name]), "s", 0.3))
        rows.append(
            Row(f"cold: {name}, over numpy's import", statistics.median(times[name]) / base, "x numpy", 2.6)
        )
        rows.append(Row(f"cold: {name}, peak memory", peak[name], "MB", 90))
    return rows


def sweep() -> list[Row]:
    """A million rows to CSV, and the memory of that."""
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder) / "out.csv")
        seconds, megabytes, _ = child("-m", "perfmodel", "sweep", *SUBJECT, *GRID, "--output", out)
    return [
        Row("a row of a sweep of 1,000,000 to CSV", seconds, "us", 3),
        Row("sweep of 1,000,000 rows to CSV, peak memory", megabytes, "MB"),
    ]


def table(heads: list[str], rows: list[list[str]]) -> str:
    """In Markdown, all but the first column to the right."""
    lines = [heads, [":--", *["--:"] * (len(heads) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def page(rows: list[Row], counts: dict[str, dict[str, int]]) -> str:
    """The page of the docs."""
    yardstick_s = rows[0].value * 1e-3
    times = table(
        ["what", "measured", "target", "of target", "x yardstick"], [row.cells(yardstick_s) for row in rows]
    )
    taken = table(
        ["what-if", *COUNTED], [[name, *(str(of[what]) for what in COUNTED)] for name, of in counts.items()]
    )
    machine = f"{os.cpu_count()} CPU cores ({platform.machine()}), Python {platform.python_version()}"
    load = os.getloadavg()[1]
    return (
        "<!-- Written by benchmarks/engine.py: `make bench`. -->\n\n# Speed and size\n\n"
        f"One run on {machine}, numpy {version('numpy')}, at a load of {load:.1f} processes. An answer "
        "holds T_T, T_D, T_V, ratios, "
        "tokens per iteration, "
        "speedup, throughput and the best gamma up to 16. Times are medians of processor time, which is "
        "the time that passes on an idle machine; cold starts are those of "
        f"{COLD_RUNS} processes taken in turns.\n\n{times}\n\n"
        "The next table counts the work of one what-if and of one question about traffic: calls of Python "
        "functions, files of this package in which these functions are, and computed forward passes. The "
        "counts are the same on every machine: a test fails if the number of files or passes differs from "
        "this table, or the number of calls by more than 5 %.\n\n"
        f"{taken}\n"
    )


def main() -> None:
    """Measure, print, write."""
    rows = [*part("warm"), *part("million"), *cold(), *sweep(), *part("decoder")]
    text = page(rows, json.loads(child(str(HERE / "counts.py"))[2]))
    OUT.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
