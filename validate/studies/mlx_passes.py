"""Models the measured times of MLX as functions of the fitted constants. Some published rates are those of
whole requests, so these times include a share of the prompt.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from perfmodel.operations import Array
from perfmodel.specs import Calibration, load_gpu
from perfmodel.speculation import with_calibration
from perfmodel.validate.solving import Values
from perfmodel.validate.studies.llamacpp_passes import LlamaCppPasses, MeasuredPass, PassGroup
from perfmodel.validate.studies.mlx_constants import TERMS, ChipConstants
from perfmodel.validate.studies.mlx_runs import ChipRun, mlx_runs
from perfmodel.validate.studies.parameters import PlacedConstant
from perfmodel.validate.studies.public_runs import PublicRun
from perfmodel.validate.studies.scoped_constants import Term

REWEIGHTED = 4
"""Number of searches after the first. Each search uses weights of servers from the result of the search
before.
"""


@dataclass
class ChipGroup(PassGroup):
    """Rows that differ only in batch and context.

    - prompts: the number of prompts in the time of each row, which is a fraction.
    - prompt_tokens: the number of tokens of these prompts.
    """

    prompts: Array
    prompt_tokens: Array

    def predict(self, calibration: Calibration) -> Array:
        """The predicted seconds of each row, including its share of the prompt."""
        seconds = super().predict(calibration)
        if not np.any(self.prompts):
            return seconds
        s = with_calibration(self.scenario, calibration)
        alone = np.ones(len(self.prompts))
        return seconds + self.prompts * s.target_pass_s(alone, self.prompt_tokens, self.prompt_tokens)


class ChipPasses(LlamaCppPasses):
    """The measured times of MLX and its forks, with predictions as functions of the parameters."""

    terms: ClassVar[Mapping[str, Term]] = TERMS
    further: ClassVar[tuple[PlacedConstant, ...]] = ()

    @staticmethod
    def runs() -> Iterable[PublicRun]:
        """The public runs of MLX and its forks."""
        return mlx_runs()

    def settled(self, train: NDArray[np.bool_]) -> Values:
        """See `LlamaCppPasses.settled`. A few servers take up to five times as long as their kernels. A
        server with an outlying error therefore counts less in the common error of its source.
        """
        values = super().settled(train)
        for _ in range(REWEIGHTED):
            values = self.least_loss(self.parts(train, self.off(values)), values)
        return values

    def _group(self, index: list[int], start: Values) -> ChipGroup:
        rows = [self.rows[i] for i in index]
        prompts = [_prompts_inside(row) for row in rows]
        pairs = zip(rows, prompts, strict=True)
        tokens = [row.run.stated("input_tokens") if inside else 0.0 for row, inside in pairs]
        return ChipGroup(
            **vars(super()._group(index, start)), prompts=np.array(prompts), prompt_tokens=np.array(tokens)
        )

    @staticmethod
    def constants_of(run: PublicRun) -> Any:
        """The constants for the device, the fork and the version of a run, as functions of the parameters."""
        return ChipConstants(load_gpu(run.hardware), run.engine, run.engine_version)


def _prompts_inside(row: MeasuredPass) -> float:
    """The number of prompts in the time of a row (`ChipRun.prompt_share_per_token`). An iteration has the
    shares of all its tokens.
    """
    assert isinstance(row.run, ChipRun)
    tokens = row.run.stated("tokens_per_iteration") if row.figure == "iteration" else 1.0
    return tokens * row.run.prompt_share_per_token
