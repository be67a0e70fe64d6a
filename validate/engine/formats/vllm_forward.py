"""``vllm bench forward --output-json`` (0.33): exact batches through the model as one CUDA graph.

A decode case is T_T and a verify case T_V(K) directly. Sampling and everything that the host does are not in it. With
a drafter configured its passes are included, unless ``--exclude-drafter`` (`ranks[0].timing_scope` says which).
"""

from typing import Any

from perfmodel.errors import refuse
from perfmodel.validate.engine.formats.fields import number, numbers, objects, positive, thinned
from perfmodel.validate.engine.timing import Said, Timing

TITLE = "vllm bench forward --output-json"


def is_format(data: list[dict[str, Any]]) -> bool:
    """Whether every object is a case."""
    return all("median_us" in case and "requests" in case for case in data)


def read(where: str, data: list[dict[str, Any]], said: Said) -> list[Timing]:
    """The decode and verify cases of one draft length each; prefill and mixed cases are left out."""
    found = [_case(f"{where}: {case.get('case', n)}", case) for n, case in enumerate(data)]
    return [timing for timing in found if timing is not None]


def _case(where: str, case: dict[str, Any]) -> Timing | None:
    requests = case["requests"]
    if not isinstance(requests, list) or not requests or not all(isinstance(r, dict) for r in requests):
        raise refuse(where, "requests", "a list of requests", requests)
    sizes = [[number(where, r, key) for key in ("query_len", "kv_len", "num_draft_tokens")] for r in requests]
    lengths = {drafted for _, _, drafted in sizes}
    if len(lengths) > 1 or any(query != drafted + 1 or kv <= query for query, kv, drafted in sizes):
        return None
    ranks = objects(where, case, "ranks") or [{}]
    scope = ranks[0].get("timing_scope", "target_only") if isinstance(ranks[0], dict) else "target_only"
    latency = ranks[0].get("latency_us", {}) if isinstance(ranks[0], dict) else {}
    samples = numbers(where, latency, "samples_us") if isinstance(latency, dict) else []
    contexts = [kv - query for query, kv, _ in sizes]
    return Timing(
        where=where,
        kind="pass_with_draft" if scope == "target_and_drafter" else "pass",
        seconds=positive(where, "median_us", number(where, case, "median_us") / 1e6),
        batch=float(len(requests)),
        context=sum(contexts) / len(contexts),
        gamma=int(lengths.pop()),
        tokens_per_iteration=1.0,
        how=f"median of graph replays, {scope.replace('_', ' ')}",
        samples=thinned([us / 1e6 for us in samples]),
    )
