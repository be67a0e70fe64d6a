"""``vllm bench forward --output-json`` (0.33): exact batches through the model as one CUDA graph.

A decode case is T_T and a verify case T_V(K) directly. Sampling and everything that the host does are not in it. With
a drafter configured its passes are included, unless ``--exclude-drafter`` (`ranks[0].timing_scope` says which).
"""

from typing import Any

from perfmodel.errors import refuse
from perfmodel.validate.engine.formats.fields import found, number, numbers, objects, positive, thinned
from perfmodel.validate.engine.timing import Said, Timing

TITLE = "vllm bench forward --output-json"
KEYS = ({"median_us", "requests"},)


def read(where: str, case: dict[str, Any], said: Said) -> list[Timing]:
    """A decode or verify case of one draft length; nothing of a prefill or mixed case."""
    requests = case["requests"]
    if not isinstance(requests, list) or not requests or not all(isinstance(r, dict) for r in requests):
        raise refuse(where, "requests", "a list of requests", requests)
    sizes = [[number(where, r, key) for key in ("query_len", "kv_len", "num_draft_tokens")] for r in requests]
    lengths = {drafted for _, _, drafted in sizes}
    if len(lengths) > 1 or any(query != drafted + 1 or kv <= query for query, kv, drafted in sizes):
        return []
    rank = (objects(where, case, "ranks") or [{}])[0]
    scope = found(rank, "timing_scope") or "target_only"
    contexts = [kv - query for query, kv, _ in sizes]
    timing = Timing(
        where=where,
        kind="pass_with_draft" if scope == "target_and_drafter" else "pass",
        seconds=positive(where, case, "median_us") / 1e6,
        batch=float(len(requests)),
        context=sum(contexts) / len(contexts),
        gamma=int(lengths.pop()),
        how=f"median of graph replays, {scope.replace('_', ' ')}",
        samples=thinned([us / 1e6 for us in numbers(where, rank, "latency_us.samples_us")]),
    )
    return [timing]
