"""What the engine says of a run of ``validate generate``, for the acceptance that was measured in it."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perfmodel.answers.query import Query
    from perfmodel.validate.cli.generated import Predicted
    from perfmodel.validate.decoder.pair import Pair
    from perfmodel.validate.harness.side_by_side import Run


def predicted(pair: "Pair", run: "Run", hardware: str | None) -> "Predicted | None":
    """Plain tokens/s and the speedup, None where there is nothing to predict with.

    Chains, trees and two levels each by the engine part of that name.
    """
    from perfmodel.validate.cli.generated import Predicted

    request = run.request
    if hardware is None or request.draft.startswith("ngram") or not run.timed_iterations:
        return None
    if request.middle_kv is not None:
        return Predicted(hardware, *_two_levels(pair, run, hardware, request.middle_kv))
    query = _query(pair, run, hardware, tokens_per_iteration=run.generation.tokens_per_iteration)
    if request.tree is not None:
        return Predicted(hardware, *_tree(query, request.tree, run.generation.tokens_per_iteration))
    from perfmodel.answers.whatif import whatif

    told = whatif(query)
    assert told.speedup is not None  # the query says what was accepted
    return Predicted(hardware, told.ar_throughput_tokens_per_s, told.speedup)


def _query(pair: "Pair", run: "Run", hardware: str, **more: Any) -> "Query":
    from perfmodel.answers.query import Query

    request, precision = run.request, pair.precision()
    asked: dict[str, Any] = {
        "tp": pair.tp,
        "draft": pair.draft_model or "self",
        "draft_tp": pair.draft_tp,
        "draft_kv": request.draft_kv,
        "weights": precision,
        "kv_dtype": precision,
        "new_tokens": request.new_tokens,
    }
    return Query(pair.target, hardware, request.batch, request.context, request.gamma, **asked | more)


def _tree(query: "Query", parents: tuple[int, ...], tokens_per_iteration: float) -> tuple[float, float]:
    from dataclasses import replace

    from perfmodel.answers.query import resolve
    from perfmodel.speculation.tree import Tree
    from perfmodel.speculation.tree_cost import speedup
    from perfmodel.speculation.tree_shape import widths

    # acceptance is the tree's, by rank; the chain's is not used, and 0 stands in for it
    scenario = resolve(replace(query, tokens_per_iteration=None, alpha=0.0))
    shape = Tree(parents, widths(parents), tokens_per_iteration)
    plain_s = float(scenario.target_pass_s(float(query.batch), float(query.context)))
    return float(query.batch) / plain_s, float(speedup(scenario, float(query.batch), float(query.context), shape))


def _two_levels(pair: "Pair", run: "Run", hardware: str, middle_kv: str) -> tuple[float, float]:
    from perfmodel.answers.query import resolve
    from perfmodel.speculation.two_levels import predict_two_levels
    from perfmodel.validate.decoder.two_levels import LevelCounts

    assert isinstance(run.counts, LevelCounts)
    request, (inner, outer) = run.request, run.counts.alphas
    small = resolve(_query(pair, run, hardware, alpha=inner))
    sparse = resolve(_query(pair, run, hardware, alpha=outer, draft="self", draft_tp=None, draft_kv=middle_kv))
    batch, context = float(request.batch), float(request.context)
    told = predict_two_levels(small, sparse, batch, context, request.inner_gamma, request.gamma)
    return batch / float(told.target_s), float(told.speedup)
