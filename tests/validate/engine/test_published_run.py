"""A published EAGLE-3 run of a serving engine (files/README.md): from some draft lengths and batches to the others."""

import csv
from pathlib import Path

import numpy as np
import pytest

from perfmodel.answers.query import Query
from perfmodel.specs.calibration import load_calibration
from perfmodel.validate.engine.calibrate import calibrate, lines
from perfmodel.validate.engine.fit import rows_of
from perfmodel.validate.engine.record import EngineSubject
from perfmodel.validate.engine.timing import Timing

PATH = Path(__file__).parent / "files" / "gpt-oss-120b-eagle3-h200.csv"
QUERY = Query("gpt-oss-120b", "h200", 1, 1, draft="eagle:features=3", alpha=0.5, calibration="ideal")


def timings() -> list[Timing]:
    found = []
    with PATH.open() as file:
        for row in csv.DictReader(file):
            place = {name: float(row[name]) for name in ("batch", "context", "tokens_per_iteration")}
            seconds = float(row["iteration_ms"]) / 1e3
            found.append(Timing(where=PATH.name, seconds=seconds, gamma=int(row["gamma"]), **place))
    return found


@pytest.mark.parametrize(("base", "seen", "asked", "mean", "worst"), [
    ("h200-sxm-141gb.vllm", lambda t: t.gamma in (0, 7), lambda t: t.gamma == 1, 0.045, 0.08),
    ("h200-sxm-141gb.vllm", lambda t: t.batch in (1, 4, 16, 64), lambda t: t.batch in (2, 8, 32), 0.05, 0.11),
    ("h200-sxm-141gb.vllm", lambda t: t.gamma in (1, 7), lambda t: t.gamma == 0, 0.08, 0.11),
    ("ideal", lambda t: t.gamma in (0, 7), lambda t: t.gamma == 1, 0.05, 0.07),
    ("ideal", lambda t: t.gamma in (1, 7), lambda t: t.gamma == 0, 0.08, 0.14),
])  # fmt: skip
def test_some_rows_tell_the_others(base, seen, asked, mean, worst) -> None:
    rows = timings()
    subject = EngineSubject.of(QUERY, "vllm", "0.22")
    made = calibrate([t for t in rows if seen(t)], QUERY, [load_calibration(base)], subject, (PATH.name,))
    wanted = [t for t in rows if asked(t)]
    seconds = rows_of([*wanted, *rows], QUERY, made.calibration).predict(made.calibration)[: len(wanted)]
    errors = np.abs(seconds / [t.seconds for t in wanted] - 1)
    assert errors.mean() < mean
    assert errors.max() < worst
    no_plain = "no baseline step among these rows" in "\n".join(lines(made))
    assert no_plain == all(t.gamma for t in rows if seen(t))
