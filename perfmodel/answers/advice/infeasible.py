"""Why nothing fits in `advise`, and a change that would fit: another batch, degree, weight format or
device.
"""

from typing import Any

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.candidates import Skip
from perfmodel.answers.advice.layouts import Layout
from perfmodel.answers.advice.prices import Priced
from perfmodel.answers.question import UNUSED, resolve
from perfmodel.errors import InputError
from perfmodel.specs import load_gpu
from perfmodel.specs.boundary import files
from perfmodel.speculation import memory_of


def why_infeasible(
    query: AdviseQuery, baseline: list[Priced], drafted: list[Priced], skips: list[Skip]
) -> str:
    """The reason, as a part of a sentence. skips: the first is that of a degree, if none has a baseline."""
    if not baseline:
        return f"the model runs in none of the requested layouts ({skips[0].reason})"
    fitting = [x.tpot_s[x.fits].min() for x in (*baseline, *drafted) if x.fits.any()]
    if not fitting:
        context = float(query.context)
        fraction = query.memory_fraction
        room = [memory_of(x.candidate.scenario, 1.0, context, 0.0, fraction) for x in baseline]
        least = int(min(query.batch or (1,)))
        most = max(int(r.ar_max_batch) for r in room)
        if most >= 1:
            return f"no requested batch fits: the smallest is {least}, the largest that fits is {most}"
        weights = min(float(x.candidate.scenario.weight_bytes) for x in baseline) / 1e9
        available = float(room[0].available_bytes)
        return (
            f"nothing fits: a device would hold {weights:.1f} GB of weights and the cache of one sequence, "
            f"but has room for {available / 1e9:.1f} GB{_would_fit(query, _largest(baseline), available)}"
        )
    return f"the lowest TPOT is {min(fitting) * 1e3:.2f} ms, above the bound of {query.max_tpot_ms:g} ms"


def _largest(baseline: list[Priced]) -> Layout:
    """The layout with the largest servers; of these, the one with the fewest groups."""
    layouts = [x.candidate.layout for x in baseline]
    return max(layouts, key=lambda layout: (layout.server_gpus, -layout.dp, -layout.ep))


def _would_fit(query: AdviseQuery, layout: Layout, available_bytes: float) -> str:
    """The smallest change of each kind (degree, weight format, device) with which one sequence fits."""

    def fits_with(**changes: Any) -> bool:
        arguments = {
            "batch": 1,
            "draft": "self",
            "draft_kv": "full",
            "draft_tp": None,
            **layout.arguments(),
        } | changes
        try:
            scenario = resolve(query.query(**arguments), UNUSED)
        except InputError:
            return False
        return bool(memory_of(scenario, 1.0, float(query.context), 0.0, query.memory_fraction).fits)

    degrees = [tp for tp in (2, 4, 8, 16) if tp > layout.server_gpus and fits_with(tp=tp)]
    formats = [name for name in ("fp8", "int4-g128") if fits_with(weights=name)]
    gpus = [load_gpu(name) for name in files.bundled_names("gpus")]
    enough = available_bytes / query.memory_fraction
    larger = sorted((gpu.memory_bytes, gpu.name) for gpu in gpus if gpu.memory and gpu.memory_bytes > enough)
    device = next((f"on {name}" for _, name in larger if fits_with(hardware=name)), None)
    flag = "--tp" if query.gpus is None else "--gpus"
    ways = [*(f"with {flag} {tp}" for tp in degrees[:1]), *(f"with --weights {f}" for f in formats[:1])]
    ways += [device] if device else []
    if ways:
        return f"; it would fit {', '.join(ways[:-1])}{' or ' * (len(ways) > 1)}{ways[-1]}"
    return ""
