"""The times of a scenario's passes, as formulas that compile themselves (`costs.formulas`)."""

from perfmodel.costs.compiled import Program
from perfmodel.costs.formulas import Formula
from perfmodel.immutable import Immutable


class PassPrograms(Immutable, eq=False):
    """The compiled programs of three of the `PassFormulas`."""

    target: Program
    draft: Program
    overhead: Program


class PassFormulas(Immutable, eq=False):
    """The formulas of the seconds of passes, without a power limit. These formulas do not depend on the
    acceptance.

    These are functions of (batch, context, query):

    - target, draft: seconds of a pass. `target` has the standard deviation of the context as a fourth
      argument.
    - target_step, draft_step: all `PassTime.figures` of a pass.
    - surplus: seconds by which a target pass computes for longer than it loads.

    These are functions of (batch, context):

    - overhead: seconds of an iteration outside its passes.
    - setup: seconds of the draft before the first token.
    """

    target: Formula
    draft: Formula
    overhead: Formula
    surplus: Formula
    target_step: Formula
    draft_step: Formula
    setup: Formula

    def compiled(self) -> PassPrograms:
        """Compiles the formulas `target`, `draft` and `overhead` now."""
        return PassPrograms(self.target.program, self.draft.program, self.overhead.program)
