"""One measured figure of a record, and its prediction."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured figure and its prediction.

    - part: the row of the error table to which the figure belongs, ``machine/plan/quantity``. Later runs of
      the same plan have the same part.
    - record, row: the name of the record, and that of the point in the record.
    - calibration: the name of the calibration that predicts the figure.
    - fitted: whether this calibration was fitted to the same record.
    """

    part: str
    record: str
    row: str
    measured: float
    predicted: float
    calibration: str
    fitted: bool

    @property
    def name(self) -> str:
        """``record/row/quantity``."""
        return f"{self.record}/{self.row}/{quantity_of(self.part)}"

    @property
    def error(self) -> float:
        """The signed relative error of the prediction."""
        return self.predicted / self.measured - 1.0


def quantity_of(part: str) -> str:
    """The quantity in the name of a part, which is the last word."""
    return part.rpartition("/")[2]
