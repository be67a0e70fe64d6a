"""Reads the public runs of MLX and its forks: the rows of ``results/published/mlx_runs.csv``."""

from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

from perfmodel.specs import load_model
from perfmodel.specs.published import read_published
from perfmodel.validate.studies.public_runs import PublicRun

WHOLE_REQUEST = "outputs / whole time (prompt inside)"
"""Value of the column ``measured_as`` if the published rate includes the prompt (tokens_per_sec of mlx_dspark
0.20.3, generate.py).
"""


@dataclass(frozen=True, slots=True)
class ChipRun(PublicRun):
    """A public run of MLX.

    - draft_weights: the format of the draft's weights; empty if it is that of the target.
    """

    table: ClassVar[str] = "mlx_runs"
    draft_weights: str

    def query_arguments(self, degree: int | None = None) -> dict[str, Any]:
        """See `PublicRun.query_arguments`. The arguments include the format of the draft's weights."""
        arguments = PublicRun.query_arguments(self, degree)
        return arguments | {"draft_weights": self.draft_weights or None}

    @property
    def prompt_share_per_token(self) -> float:
        """The share of a prompt's time that the published time of an output token contains.

        If the whole request was timed, it is one over the number of output tokens. Otherwise, it is 0. It is
        also 0 for models with experts, because no short prompt of these models was timed with MLX.
        """
        if self.measured_as != WHOLE_REQUEST or load_model(self.model).moe:
            return 0.0
        return 1.0 / self.stated("output_tokens")


@cache
def mlx_runs() -> tuple[ChipRun, ...]:
    """All rows of the table, including those that do not count."""
    return read_published(ChipRun.table, ChipRun)
