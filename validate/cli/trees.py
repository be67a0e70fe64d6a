"""The tree of each draft cache: as given, or Sequoia's for given or previously measured rates."""

from dataclasses import dataclass, replace

from perfmodel.errors import InputError
from perfmodel.speculation.tree import TreeAcceptance
from perfmodel.speculation.tree_shape import branching, sequoia, sequoia_nodes, widths
from perfmodel.validate.decoder.model import Model
from perfmodel.validate.decoder.request import Request
from perfmodel.validate.decoder.tree import TreeCounts
from perfmodel.validate.harness.side_by_side import run

STAR = "8"
"""The tree that measures rates: so many children of the root."""


@dataclass(frozen=True)
class Planned:
    """A request with its tree, and the rates by rank that it was chosen for (None where they were
    not used).
    """

    request: Request
    rates: tuple[float, ...] | None
    source: str = ""


def check_tree(spec: str, rates: tuple[float, ...] | None, draft: str, alpha: float | None) -> None:
    """Refuses arguments that `planned` cannot serve, before anything is loaded. Raises InputError."""
    if sequoia_nodes(spec) is None:
        branching(spec)
    if rates is not None:
        TreeAcceptance.of(rates)
    if draft.partition(":")[0] == "ngram":
        raise InputError(f"--tree: must be used with a draft that runs a model, given {draft!r}")
    if alpha is not None:
        raise InputError("--alpha: must not be given with --tree: it is a chain's, and a tree's is observed")


def planned(
    model: Model,
    request: Request,
    spec: str,
    rates: tuple[float, ...] | None,
    prompts: list[list[int]],
    draft: Model | None,
    seed: int,
) -> Planned:
    """`request`, a chain of gamma tokens, with the tree that `spec` names; ``sequoia:N`` keeps to gamma
    levels below the root. Without rates it first decodes the prompts with a star, which measures them.

    Raises InputError for a spec or rates without a tree.
    """
    nodes, source = sequoia_nodes(spec), "the given rates"
    if nodes is None:
        return Planned(_with(request, branching(spec)), rates, source)
    if rates is None:
        star = run(model, _with(request, branching(STAR)), prompts, draft, seed).counts
        assert isinstance(star, TreeCounts)
        rates, source = tuple(star.rates), "a star's rates"
    parents = sequoia(nodes, request.gamma + 1, TreeAcceptance.of(rates))
    return Planned(_with(request, parents), rates, source)


def _with(request: Request, parents: tuple[int, ...]) -> Request:
    return replace(request, gamma=len(widths(parents)) - 1, tree=parents)
