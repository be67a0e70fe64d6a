"""Answers the same question for older versions of the engine, because the verdict may differ. Only versions
for which constants were fitted are used.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from perfmodel.answers.point.judged_length import fastest
from perfmodel.answers.point.verdict import Verdict
from perfmodel.answers.question import Query, resolve, runs_in
from perfmodel.answers.text import interval_text
from perfmodel.errors import InputError
from perfmodel.immutable import Immutable
from perfmodel.specs import VERSION_SEPARATOR, engine_of
from perfmodel.specs.engines.engines import engines
from perfmodel.speculation import Interval, Scenario


class VersionGain(Immutable):
    """The verdict and the speedup in one version of the engine, at the draft length of the question."""

    version: str
    verdict: Verdict
    speedup: float
    speedup_interval: Interval | None

    @property
    def text(self) -> str:
        """The version and its speedup in words, such as ``0.5.5: 0.78x (0.64 to 0.97)``."""
        return f"{self.version}: {self.speedup:.2f}x{interval_text(self.speedup_interval)}"


def other_verdict(query: Query, now: Verdict, speedup: float) -> VersionGain | None:
    """Among the older versions, the newest one with another verdict or with a speedup on the other side of 1.
    The result is None if there is no such version, if the question names a version or a calibration, or
    without a draft.

    - query: a question that states its draft and draft length.
    - now, speedup: verdict and speedup of the newest version.
    """
    if VERSION_SEPARATOR in (query.engine or "") or query.calibration is not None or not query.gamma:
        return None
    gains = speedup > 1.0
    return next(
        (older for older in _older(query) if older.verdict != now or (older.speedup > 1.0) != gains), None
    )


def _older(query: Query) -> Iterator[VersionGain]:
    """The older fitted versions that run the draft, the newest first."""
    newest = resolve(query)
    word = engine_of(newest.machine.calibration)
    known = engines().engines.get(word or "")
    if known is None:
        return
    for version in reversed(known.versions[:-1]):
        named = f"{word}{VERSION_SEPARATOR}{version}"
        runs = runs_in(word, newest.draft, named)
        if runs is not None and not runs.runs:
            continue
        try:
            scenario = resolve(replace(query, engine=named), newest.acceptance)
        except InputError:
            continue
        yield _gain(query, scenario, version)


def _gain(query: Query, scenario: Scenario, version: str) -> VersionGain:
    judged = fastest(query, scenario, np.array([query.gamma]))
    return VersionGain(version, judged.verdict, judged.speedup, judged.speedup_interval)
