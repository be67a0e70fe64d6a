"""The tree of each draft cache: the given one, or Sequoia's for given or measured rates."""

from dataclasses import dataclass, replace

from perfmodel.errors import InputError
from perfmodel.speculation.tree import TreeAcceptance
from perfmodel.speculation.tree_shape import branching, sequoia, sequoia_nodes, widths
from perfmodel.validate.decoder import Model, Request, TreeCounts
from perfmodel.validate.harness.side_by_side import run

STAR = "8"
"""The tree that measures rates: a root with this many children."""


@dataclass(frozen=True)
class TreeRequest:
    """A request with its tree, and the rates by rank for which it was chosen (None if they were not used)."""

    request: Request
    rates: tuple[float, ...] | None
    source: str = ""


def check_tree(spec: str, rates: tuple[float, ...] | None, draft: str, alpha: float | None) -> None:
    """Refuse (InputError) arguments that `with_tree` cannot serve, before anything is loaded."""
    if sequoia_nodes(spec) is None:
        branching(spec)
    if rates is not None:
        TreeAcceptance.of(rates)
    if draft.partition(":")[0] == "ngram":
        raise InputError(f"--tree: must be used with a draft that runs a model, given {draft!r}")
    if alpha is not None:
        raise InputError("--alpha: must not be given with --tree, whose acceptance is observed")


def with_tree(
    model: Model,
    request: Request,
    spec: str,
    rates: tuple[float, ...] | None,
    prompts: list[list[int]],
    draft: Model | None,
    seed: int,
) -> TreeRequest:
    """Adds the tree that `spec` names to `request`, a chain of gamma tokens. ``sequoia:N`` has gamma levels
    below the root.

    Without rates, it first decodes the prompts with a star, which measures them. Raises InputError for a spec
    or rates without a tree.
    """
    nodes, source = sequoia_nodes(spec), "the given rates"
    if nodes is None:
        return TreeRequest(_with(request, branching(spec)), rates, source)
    if rates is None:
        star = run(model, _with(request, branching(STAR)), prompts, draft, seed).counts
        assert isinstance(star, TreeCounts)
        rates, source = tuple(star.rates), "a star's rates"
    parents = sequoia(nodes, request.gamma + 1, TreeAcceptance.of(rates))
    return TreeRequest(_with(request, parents), rates, source)


def _with(request: Request, parents: tuple[int, ...]) -> Request:
    return replace(request, gamma=len(widths(parents)) - 1, tree=parents)
