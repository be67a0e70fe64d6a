"""The public runs of MLX and its forks: ``results/published/mlx_runs.csv``."""

from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

from perfmodel.specs import load_model
from perfmodel.specs.published import read_published
from perfmodel.validate.studies.public_runs import PublicRun

WHOLE_REQUEST = "outputs / whole time (prompt inside)"
"""What a source timed if the prompt is in its rate: tokens_per_sec of mlx_dspark 0.20.3 (generate.py)."""


@dataclass(frozen=True, slots=True)
class ChipRun(PublicRun):
    """One row. draft_weights: format of the draft if it is not that of the target."""

    table: ClassVar[str] = "mlx_runs"
    draft_weights: str

    def query_arguments(self, degree: int | None = None) -> dict[str, Any]:
        """Arguments of a question from this row, with the draft's format."""
        arguments = PublicRun.query_arguments(self, degree)
        return arguments | {"draft_weights": self.draft_weights or None}

    @property
    def prompts_of_a_token(self) -> float:
        """Prompts in the time of a token: its share where the whole request was timed, else 0.

        Of models with experts it is 0 too: no prompt of one was timed with MLX at so few tokens.
        """
        if self.measured_as != WHOLE_REQUEST or load_model(self.model).moe:
            return 0.0
        return 1.0 / self.stated("output_tokens")


@cache
def mlx_runs() -> tuple[ChipRun, ...]:
    """All rows, including those that do not count."""
    return read_published(ChipRun.table, ChipRun)
