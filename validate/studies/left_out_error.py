"""The error of a row with constants that were fitted without the row's source."""

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from perfmodel.specs import device_class, load_gpu
from perfmodel.specs.engines.source_errors import extra_share
from perfmodel.validate.studies.log_errors import of_reciprocal
from perfmodel.validate.studies.public_runs import PublicRun


@dataclass(frozen=True, slots=True)
class LeftOutError:
    """The log error of a row with constants that were fitted without the row's source.

    - off: the log error.
    - per: the share by which the error is divided (`relative`). It is `extra_share` for a ratio, and 1 for a
      step.
    - counts: whether widths are fitted to the row. If not, the row was left out by judgement and counts only
      in the coverage.
    - device: the class of the device (`device_class`).
    - series: a key that is equal for rows of the source that differ only in batch and context; None if there
      are no such rows.
    """

    source: str
    off: float
    per: float = 1.0
    counts: bool = True
    device: str = ""
    series: Hashable = None

    @classmethod
    def of_run(cls, run: PublicRun, figure: str, off: float) -> "LeftOutError":
        """The error of a public run's step, or of the ratio from which its speedup follows.

        - off: the log error of the figure ``step`` or ``speedup``.
        """
        device = device_class(load_gpu(run.hardware))
        if figure == "step":
            return cls(run.source_id, off, counts=run.counts, device=device, series=run.series)
        assert run.tokens_per_iteration
        assert run.speedup
        ratio = run.tokens_per_iteration / run.speedup
        return cls.of_ratio(run.source_id, of_reciprocal(off), ratio, run.counts, device, run.series)

    @classmethod
    def of_ratio(
        cls,
        source: str,
        off: float,
        measured: float,
        counts: bool = True,
        device: str = "",
        series: Hashable = None,
    ) -> "LeftOutError":
        """The error of the ratio of an iteration to a step.

        - off: the log error of the ratio.
        - measured: the measured ratio.
        """
        return cls(source, off, float(extra_share(measured * np.exp(off))), counts, device, series)

    @property
    def relative(self) -> float:
        """The error divided by `per`."""
        return self.off / self.per
