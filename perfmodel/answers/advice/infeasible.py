"""Why nothing fits in `advise` or keeps a bound, and a change that would help: another batch, degree, weight
format or device.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.candidates import Candidate, Skip
from perfmodel.answers.advice.prices import Priced
from perfmodel.answers.question import resolve_costs
from perfmodel.answers.text import seconds
from perfmodel.errors import InputError
from perfmodel.specs import GPUSpec, engine_of, load_gpu, serving_engines
from perfmodel.specs.boundary import files
from perfmodel.specs.models.ggml import CONVERTED
from perfmodel.speculation import memory_of

SMALLER_KV: dict[str | None, tuple[str, ...]] = {None: ("fp8",), "gguf": ("q8_0", "q4_0")}
SMALLER_WEIGHTS: dict[str | None, tuple[str, ...]] = {
    None: ("fp8", "nvfp4", "int4-g128"),
    "gguf": ("q8_0", "q6_k", "q5_k_m", "q4_k_m", "iq4_xs", "q3_k_m", "q2_k"),
    "mlx": ("8bit", "6bit", "4bit"),
}
"""Formats to try, the larger first, by the kind of file to which the engine converts checkpoints."""
Helps = Callable[..., bool]
"""Whether a changed argument of the question helps."""
MOST_DOUBLINGS = 4
"""Degrees to try: up to 2^4 devices."""


def why_infeasible(
    query: AdviseQuery, baseline: list[Priced], drafted: list[Priced], skips: list[Skip], trees: bool = False
) -> str:
    """The reason, as a part of a sentence. skips: the first is that of a degree, if none has a baseline.
    trees: whether a tree keeps the bound on the time per token.
    """
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
            ways = _ways(query, _largest(baseline), math.inf, least)
            sizes = f"the smallest is {least}, the largest that fits is {most}"
            return f"no requested batch fits: {sizes}{_listed(f'{least} would fit', ways)}"
        ways = _ways(query, _largest(baseline), math.inf)
        return f"nothing fits: {_shortage(query, baseline)}{_listed('it would fit', ways)}"
    without = "without a tree " if trees else ""
    lowest = seconds(min(fitting))
    above = f"the lowest TPOT {without}is {lowest}, above the bound of {query.max_tpot_ms:g} ms"
    bound_s = query.max_tpot_s or math.inf
    ways = () if trees else _ways(query, _largest(baseline), bound_s)
    return f"{above}{_listed('one sequence would keep it', ways)}"


def _largest(baseline: list[Priced]) -> Candidate:
    """The candidate with the largest servers; of these, the one with the fewest groups."""

    def size(candidate: Candidate) -> tuple[int, int, int]:
        layout = candidate.layout
        return layout.server_gpus * layout.in_turn, -layout.dp, -layout.ep

    return max((x.candidate for x in baseline), key=size)


def _shortage(query: AdviseQuery, baseline: list[Priced]) -> str:
    """What one sequence needs on a device at the largest degree, and the room for it."""
    context = float(query.context)
    rooms = [
        (x.candidate.scenario, memory_of(x.candidate.scenario, 1.0, context, 0.0, query.memory_fraction))
        for x in baseline
    ]
    scenario, room = min(rooms, key=lambda each: float(each[1].weight_bytes) + float(each[1].kv_bytes))
    weights = float(room.weight_bytes)
    cache = float(room.kv_bytes)
    total = weights + cache
    available = float(room.available_bytes)
    needed = (
        f"a device would hold {weights / 1e9:.1f} GB of weights and {cache / 1e9:.1f} GB of KV cache for one "
        "sequence"
    )
    share = scenario.account.cache_share(scenario.target_shard)
    if share < 1.0 and total <= available:
        beside = float(room.pool_bytes) / 1e9
        parts = f"{share:.0%} hold caches and the rest states"
        return f"{needed}, but of the {beside:.1f} GB beside the weights {parts}"
    alike = round(total / 1e9, 1) == round(available / 1e9, 1)
    decimals = 2 if alike else 1
    sizes = [f"{size / 1e9:.{decimals}f} GB" for size in (total, available)]
    return f"{needed}, together {sizes[0]}, but has room for {sizes[1]}"


def _ways(query: AdviseQuery, largest: Candidate, bound_s: float, batch: int = 1) -> tuple[str, ...]:
    """The smallest change of each kind with which a batch fits, keeps a bound on its time per token, and the
    tool has an answer: a smaller KV format, smaller weights, layers on the host, more devices, another device
    of the same maker for the same engine.

    largest: the baseline with the largest servers.
    """
    helps = partial(_helps, query, largest, bound_s, batch)
    ways = [*_formats(largest, helps)]
    if query.host_bandwidth is not None or math.isinf(bound_s):
        ways += _on_host(query, largest, helps)
    return (*ways, *_degrees(query, largest, helps), *_devices(query, largest, helps))


def _listed(would: str, ways: tuple[str, ...]) -> str:
    """The changes as a clause; empty without any."""
    if not ways:
        return ""
    *texts, last = ways
    return f"; {would} {', '.join(texts)} or {last}" if texts else f"; {would} {last}"


def _smaller_weights(candidate: Candidate) -> list[str]:
    """The smaller formats of weights that the device and the checkpoint may have, the largest first. GGUF
    files of a model with MXFP4 experts keep these in MXFP4, whatever the mix, so none is smaller.
    """
    conversion = _conversion(candidate)
    if conversion == "gguf" and candidate.scenario.target.weights in CONVERTED.values():
        return []
    return [name for name in SMALLER_WEIGHTS[conversion] if name != "nvfp4" or _computes_nvfp4(candidate)]


def smaller_caches(candidate: Candidate) -> tuple[str, ...]:
    """The smaller formats of a KV cache that the engine of a candidate has, the largest first."""
    return SMALLER_KV.get(_conversion(candidate), ())


def _formats(largest: Candidate, helps: Helps) -> Iterator[str]:
    """The smallest change of number formats; one of both kinds only where neither suffices alone."""
    caches = smaller_caches(largest)
    formats = _smaller_weights(largest)
    kv = [f"--kv-dtype {name}" for name in caches if helps(kv_dtype=name)]
    weights = [f"--weights {name}" for name in formats if helps(weights=name)]
    yield from (f"with {change}" for change in (*kv[:1], *weights[:1]))
    if kv or weights:
        return
    for weight in formats:
        for cache in caches:
            if helps(weights=weight, kv_dtype=cache):
                yield f"with --weights {weight} --kv-dtype {cache}"
                return


def _on_host(query: AdviseQuery, largest: Candidate, helps: Helps) -> Iterator[str]:
    """The fewest layers that llama.cpp leaves to the host, or whose experts it leaves there."""
    shared = query.cpu_moe or query.gpu_layers is not None
    if _conversion(largest) != "gguf" or shared or largest.layout.server_gpus > 1:
        return
    target = largest.scenario.target
    layers = target.num_hidden_layers
    bandwidth = query.host_bandwidth or 1.0  # of no matter to the memory

    def change(on_host: int) -> dict[str, int]:
        return {"cpu_moe": on_host} if target.moe else {"gpu_layers": layers + 1 - on_host}

    counts = range(1, layers + 1)
    least = bisect_left(counts, True, key=lambda n: helps(**change(n), host_bandwidth=bandwidth))
    if least == layers:
        return
    ((name, value),) = change(counts[least]).items()
    host = "" if query.host_bandwidth else " --host-bandwidth GB/s"
    yield f"with --{name.replace('_', '-')} {value}{host}"


def _conversion(largest: Candidate) -> str | None:
    """The kind of file to which the engine of a candidate converts checkpoints."""
    engine = serving_engines().get(engine_of(largest.scenario.machine.calibration) or "")
    return None if engine is None else engine.conversion


def _computes_nvfp4(largest: Candidate) -> bool:
    """Whether the device of a candidate multiplies 4-bit floats."""
    return "fp4" in largest.scenario.machine.gpu.peak


def _degrees(query: AdviseQuery, largest: Candidate, helps: Helps) -> Iterator[str]:
    """The next tensor-parallel degree; in llama.cpp the next number of devices that hold the layers."""
    degrees = [2**exponent for exponent in range(1, MOST_DOUBLINGS + 1)]
    if _conversion(largest) == "gguf" and largest.layout.server_gpus == 1:
        more = [n for n in degrees if n > largest.layout.in_turn]
        split = [n for n in more if helps(layer_split=n)]
        flag = "--layer-split" if query.gpus is None or query.layer_split > 1 else "--gpus"
        yield from [f"with {flag} {devices}" for devices in split[:1]]
        return
    larger = [tp for tp in degrees if tp > largest.layout.server_gpus]
    flag = "--tp" if query.gpus is None else "--gpus"
    yield from [f"with {flag} {tp}" for tp in larger if helps(tp=tp)][:1]


def _devices(query: AdviseQuery, largest: Candidate, helps: Helps) -> Iterator[str]:
    """The smallest other device of the same maker for the same engine whose memory and links are no slower;
    those with the same kind of memory first, and of these those of the same architecture.
    """
    gpu = largest.scenario.machine.gpu
    engine = query.engine or engine_of(largest.scenario.machine.calibration)
    others = [load_gpu(name) for name in files.bundled_names("gpus")]
    alike = [g for g in others if g.vendor == gpu.vendor and g.kind == gpu.kind and g.memory is not None]
    as_fast = [g for g in alike if g.memory_bandwidth_bytes_per_s >= gpu.memory_bandwidth_bytes_per_s]
    devices = largest.layout.server_gpus * largest.layout.in_turn
    in_a_box = [g for g in as_fast if g.box_devices >= devices]
    linked = [g for g in in_a_box if (g.link_rate(devices) or 0.0) >= (gpu.link_rate(devices) or 0.0)]
    larger = [g for g in linked if g.memory_bytes > gpu.memory_bytes]
    by_size = sorted((_kinship(g, gpu), g.memory_bytes, g.name) for g in larger)
    for _, _, name in by_size:
        if helps(hardware=name, engine=engine):
            yield f"on {name}" if devices == 1 else f"on {devices} x {name}"
            return


def _kinship(device: GPUSpec, other: GPUSpec) -> tuple[bool, bool]:
    """Sorts devices by how much they differ from another."""
    boards = [each.memory_type.startswith("GDDR") for each in (device, other)]
    return boards[0] != boards[1], device.architecture != other.architecture


def _helps(query: AdviseQuery, largest: Candidate, bound_s: float, batch: int, **changes: Any) -> bool:
    """Whether a batch fits after a change, keeps the bound, and the tool answers for it."""
    alone = {"batch": batch, "draft": "self", "draft_kv": "full", "draft_tp": None}
    context = float(query.context)
    try:
        scenario = resolve_costs(query.query(**alone | largest.layout.arguments() | changes))
        step_s = float(scenario.target_pass_s(float(batch), context))
    except InputError:
        return False
    fits = memory_of(scenario, float(batch), context, 0.0, query.memory_fraction).fits
    return bool(fits) and step_s <= bound_s
