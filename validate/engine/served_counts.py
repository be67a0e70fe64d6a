"""The counts of a server that drafts: its draft length, acceptance, context and load."""

from dataclasses import dataclass

from perfmodel.errors import InputError
from perfmodel.specs.acceptance.acceptance_file import AcceptanceEntry
from perfmodel.specs.acceptance.acceptance_rows import positions_from_histogram
from perfmodel.speculation import Acceptance
from perfmodel.speculation.acceptance import conditional_from_survival


@dataclass(frozen=True, slots=True)
class ServedCounts:
    """The counts of a server in one range of contexts.

    - gamma: the server's draft length.
    - context: the context of a request, in tokens.
    - running: the number of running requests; None if the server does not report it.
    """

    gamma: int
    acceptance: Acceptance
    context: float
    running: float | None

    @classmethod
    def of(cls, row: AcceptanceEntry, gamma: int | None, running: float | None) -> "ServedCounts":
        """The counts in a row of imported figures. Raises InputError if the draft length is not known.

        - gamma: the draft length; None if the figures state it.
        """
        positions = positions_from_histogram(row.histogram) if row.histogram else row.positions
        length = gamma or (len(positions) if positions else None)
        if length is None:
            raise InputError("--gamma: must be given: the draft length is not in these figures")
        if positions is None:
            acceptance = Acceptance.from_alpha(row.alpha or 0.0, "counted").replace(measured_to=length)
        else:
            acceptance = Acceptance.from_positions(positions, "counted")
        return cls(length, acceptance, row.context_tokens, running)


def rates_of(acceptance: Acceptance, gamma: int) -> str:
    """The acceptance by position, written as a value of ``--rate``."""
    survival = acceptance.survival(gamma)
    return "/".join(f"{rate:.6g}" for rate in conditional_from_survival(survival))
