"""The times of a scenario's passes as formulas that compile themselves (`costs.formulas`)."""

from perfmodel.costs.compiled import Program
from perfmodel.costs.formulas import Formula
from perfmodel.immutable import Immutable


class PassPrograms(Immutable, eq=False):
    """The compiled `PassFormulas`."""

    target: Program
    draft: Program
    overhead: Program


class PassFormulas(Immutable, eq=False):
    """Formulas of the seconds of passes, without a power limit. None depends on the acceptance.

    Functions of (batch, context, query): `target` and `draft` return the seconds of a pass, the former
    also by the deviation of the context. `target_step` and `draft_step` return all `PassTime.figures` of a
    pass. `surplus` returns the seconds by which a target pass computes for longer than it loads. Functions
    of (batch, context): the seconds of an iteration outside its passes (`overhead`), and before the first
    token (`setup`).
    """

    target: Formula
    draft: Formula
    overhead: Formula
    surplus: Formula
    target_step: Formula
    draft_step: Formula
    setup: Formula

    def compiled(self) -> PassPrograms:
        """The formulas for targets, drafts and overhead, compiled now."""
        return PassPrograms(self.target.program, self.draft.program, self.overhead.program)
