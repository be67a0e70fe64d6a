"""Finds the smallest changes of a question with which a server fits in memory or meets a bound. A change is
another number format, parallel degree, device and so on.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.candidates import Candidate
from perfmodel.answers.advice.smaller_formats import SMALLER, eight_bits, known_checkpoint
from perfmodel.answers.point.remedies import switch_text
from perfmodel.answers.question import resolve_costs
from perfmodel.errors import InputError
from perfmodel.specs import GPUSpec, engine_of, load_gpu, serving_engine_of
from perfmodel.specs.boundary import files
from perfmodel.specs.models.checkpoints import FOUR_BIT_GROUPS
from perfmodel.specs.models.ggml import CONVERTED
from perfmodel.speculation import Scenario, memory_of

SMALLER_KV: dict[str | None, tuple[str, ...]] = {None: ("fp8",), "gguf": ("q8_0", "q4_0")}
"""Kind of file to which the engine converts checkpoints -> the KV formats to try, the largest first."""
SMALLER_WEIGHTS: dict[str | None, tuple[str, ...]] = {
    None: ("fp8", "nvfp4", "int4-g128"),
    "gguf": ("q8_0", "q6_k", "q5_k_m", "q4_k_m", "iq4_xs", "q3_k_m", "q2_k"),
    "mlx": ("8bit", "6bit", "4bit"),
}
"""Kind of file to which the engine converts checkpoints -> the weight formats to try, the largest first."""
Helps = Callable[..., bool]
"""A function that says whether changed arguments of the question help."""
LARGE_SHARE = 0.95
"""Share of the memory that a server may use on a device that runs nothing else. This is an assumption."""
HALF = 0.5
"""The named formats are the largest ones with which at least this share of the context fits."""
CONTEXT_STEP = 1024
"""Contexts are tried in steps of this many tokens."""
DEGREES = (2, 4, 8, 16, 24, 32)
"""Numbers of devices of a server to try: powers of two up to one node of eight, and then up to four nodes."""
OTHER_DEVICES = {"tp", "dp", "ep", "gpus", "layer_split", "hardware"}
"""Arguments whose change needs other devices or more devices."""


@dataclass(frozen=True, slots=True)
class Way:
    """A change of the question that helps.

    - text: the change as flags, such as ``with --tp 2``.
    - changes: the changed arguments of a question about one server; None if the reader must add a value.
    """

    text: str
    changes: dict[str, Any] | None

    @property
    def opening(self) -> str:
        """The change as the beginning of a sentence."""
        return f"{self.text[0].upper()}{self.text[1:]}"

    @property
    def on_given_devices(self) -> bool:
        """Whether the change keeps the devices of the question and their spare memory, and needs no value
        from the reader.
        """
        return self.changes is not None and not {*OTHER_DEVICES, "memory_fraction"} & self.changes.keys()


def ways_of(query: AdviseQuery, largest: Candidate, bound_s: float, batch: int = 1) -> tuple[Way, ...]:
    """The smallest change of each kind with which `batch` sequences fit in memory and their TPOT is at most
    `bound_s`. The kinds are a smaller KV format, smaller weights, layers on the host, more devices, another
    device of the same vendor, a shorter context, and a larger share of the memory. The last kind leaves the
    driver and other programs less memory, so it is a last resort.

    - largest: the baseline with the largest servers.
    """
    helps = partial(_helps, query, largest, bound_s, batch)
    ways = list(_formats(query, largest, helps))
    if query.host_bandwidth is not None or math.isinf(bound_s):
        ways += _on_host(query, largest, helps)
    ways += [*_degrees(query, largest, helps), *_devices(query, largest, helps)]
    if math.isinf(bound_s) and batch == 1 and not query.has_load:
        ways += _context(query, largest)
        if not any(way.on_given_devices for way in ways):
            ways += _context_in_smaller_formats(query, largest)
    return (*ways, *_memory(query, largest, helps))


def _smaller_weights(query: AdviseQuery, candidate: Candidate) -> list[str]:
    """The smaller formats of weights that the device and the checkpoint may have, the largest first. GGUF
    files of a model with MXFP4 experts keep these in MXFP4, whatever the mix, so none is smaller. NVFP4 is
    left out if only a checkpoint with 4-bit integers is known.
    """
    conversion = _conversion(candidate)
    if conversion == "gguf" and candidate.scenario.target.weights in CONVERTED.values():
        return []
    floats = _computes_nvfp4(candidate)
    if floats and query.model_path is None and known_checkpoint(query, "nvfp4") is None:
        floats = known_checkpoint(query, FOUR_BIT_GROUPS[0]) is None
    names = [name for name in SMALLER_WEIGHTS[conversion] if name != "nvfp4" or floats]
    return [eight_bits(query) if name == SMALLER else name for name in names]


def smaller_caches(candidate: Candidate) -> tuple[str, ...]:
    """The KV formats with fewer than 16 bits per value that the engine of a candidate supports, the largest
    first.
    """
    return SMALLER_KV.get(_conversion(candidate), ())


def _formats(query: AdviseQuery, largest: Candidate, helps: Helps) -> Iterator[Way]:
    """The largest sufficient format of the cache, and that of the weights. If 8 bits in one of them are not
    sufficient, formats of both together are tried too.
    """
    caches = smaller_caches(largest)
    formats = _smaller_weights(query, largest)
    kv = [{"kv_dtype": name} for name in caches if helps(kv_dtype=name)]
    weights = [{"weights": name} for name in formats if helps(weights=name)]
    largest_suffices = bool(weights) and weights[0]["weights"] == formats[0]
    both: list[dict[str, Any]] = []
    if not kv and not largest_suffices:  # eight bits for both cost less precision than four for one
        pairs = product(formats[:1] if weights else formats, caches)
        tried = ({"weights": weight, "kv_dtype": cache} for weight, cache in pairs)
        both = [changes for changes in tried if helps(**changes)][:1]
    yield from (_with(changes) for changes in (*kv[:1], *both, *weights[:1]))


def _memory(query: AdviseQuery, largest: Candidate, helps: Helps) -> Iterator[Way]:
    """A larger share of the memory for the server, if the engine has such a setting. If this is not
    sufficient, a smaller cache is added.
    """
    if _conversion(largest) is not None or query.memory_fraction is not None:
        return
    for cache in (None, *smaller_caches(largest)):
        changes = {"memory_fraction": LARGE_SHARE} | ({"kv_dtype": cache} if cache else {})
        if not (cache and helps(kv_dtype=cache)) and helps(**changes):
            yield Way(f"as a last resort with {switch_text(changes)}", changes)
            return


def _context(query: AdviseQuery, largest: Candidate) -> Iterator[Way]:
    """The longest context at which one sequence fits in memory."""
    longest = _longest_context(query, largest.scenario)
    if longest:
        yield _with({"context": longest})


def _context_in_smaller_formats(query: AdviseQuery, largest: Candidate) -> Iterator[Way]:
    """The longest context that fits in memory with smaller formats. The formats of weights and cache are the
    largest ones with which at least the share `HALF` of the context fits. If there are none, they are those
    with the longest context.
    """
    found = dict[int, Way]()
    for weights, cache in product(_smaller_weights(query, largest), (None, *smaller_caches(largest))):
        changes = {"weights": weights} | ({"kv_dtype": cache} if cache else {})
        try:
            scenario = resolve_costs(query.query(**_alone(1) | largest.layout.arguments() | changes))
        except InputError:
            continue
        longest = _longest_context(query, scenario)
        found.setdefault(longest, _with(changes | {"context": longest}))
        if longest >= HALF * query.context:
            break
    most = max(found, default=0)
    if most:
        yield found[most]


def _longest_context(query: AdviseQuery, scenario: Scenario) -> int:
    """The longest context at which one sequence fits in memory, as a multiple of `CONTEXT_STEP`; 0 if there
    is none.
    """
    steps = np.arange(CONTEXT_STEP, query.context, CONTEXT_STEP)
    if not steps.size:
        return 0
    rooms = memory_of(scenario, 1.0, steps.astype(float), 0.0, query.memory_fraction)
    fitting = steps[np.asarray(rooms.fits)]
    return int(fitting[-1]) if fitting.size else 0


def _with(changes: dict[str, Any]) -> Way:
    """Changed arguments in the words of the command line."""
    return Way(f"with {switch_text(changes)}", changes)


def _on_host(query: AdviseQuery, largest: Candidate, helps: Helps) -> Iterator[Way]:
    """The smallest number of layers that llama.cpp runs on the host. Only the experts of these layers are
    moved there if the model has experts.
    """
    shared = query.cpu_moe or query.gpu_layers is not None
    if _conversion(largest) != "gguf" or shared or largest.layout.server_gpus > 1:
        return
    target = largest.scenario.target
    layers = target.num_hidden_layers
    bandwidth = query.host_bandwidth or 1.0  # any value: the bandwidth does not change the memory

    def change(on_host: int) -> dict[str, int]:
        return {"cpu_moe": on_host} if target.moe else {"gpu_layers": layers + 1 - on_host}

    counts = range(1, layers + 1)
    least = bisect_left(counts, True, key=lambda n: helps(**change(n), host_bandwidth=bandwidth))
    if least == layers:
        return
    ((name, value),) = change(counts[least]).items()
    if query.host_bandwidth:
        yield _with({name: value})
    else:
        yield Way(f"with {switch_text({name: value})} --host-bandwidth GB/s", None)


def _conversion(largest: Candidate) -> str | None:
    """The kind of file to which the engine of a candidate converts checkpoints."""
    engine = serving_engine_of(largest.scenario.machine.calibration)
    return None if engine is None else engine.conversion


def _computes_nvfp4(largest: Candidate) -> bool:
    """Whether the device of a candidate multiplies 4-bit floats."""
    return "fp4" in largest.scenario.machine.gpu.peak


def _degrees(query: AdviseQuery, largest: Candidate, helps: Helps) -> Iterator[Way]:
    """The next larger number of devices of a server. The devices are tensor-parallel, or each of them has
    whole experts and its own sequences. In llama.cpp, the layers are divided among the devices.
    """
    if _conversion(largest) == "gguf" and largest.layout.server_gpus == 1:
        split = [n for n in DEGREES if helps(layer_split=n)]
        flag = "layer_split" if query.gpus is None or query.layer_split > 1 else "gpus"
        yield from [_with({flag: devices}) for devices in split[:1]]
        return
    experts = largest.scenario.target.moe is not None
    for size in DEGREES:
        if size <= largest.layout.server_gpus:
            continue
        groups = {"tp": size, "dp": size, "ep": size}
        for changes in ({"tp": size}, groups) if experts else ({"tp": size},):
            if helps(**changes):
                yield _with(changes if query.gpus is None else {"gpus": size})
                return


def _devices(query: AdviseQuery, largest: Candidate, helps: Helps) -> Iterator[Way]:
    """The smallest other device with more memory, from the same vendor and for the same engine. Its memory
    and links must not be slower. Devices with the same kind of memory come first, and among these, devices of
    the same architecture.
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
            where = name if devices == 1 else f"{devices} x {name}"
            yield Way(f"on {where}", {"hardware": name, "engine": engine})
            return


def _kinship(device: GPUSpec, other: GPUSpec) -> tuple[bool, bool]:
    """A sort key for a device by its difference from another device. The kind of memory counts first, and
    then the architecture.
    """
    boards = [each.memory_type.startswith("GDDR") for each in (device, other)]
    return boards[0] != boards[1], device.architecture != other.architecture


def _alone(batch: int) -> dict[str, Any]:
    """The arguments of a question about a batch without a draft."""
    return {"batch": batch, "draft": "self", "draft_kv": "full", "draft_tp": None}


def _helps(query: AdviseQuery, largest: Candidate, bound_s: float, batch: int, **changes: Any) -> bool:
    """Whether a batch fits in memory and meets the bound after a change. A change that raises InputError does
    not help.
    """
    context = float(query.context)
    try:
        scenario = resolve_costs(query.query(**_alone(batch) | largest.layout.arguments() | changes))
        step_s = float(scenario.target_pass_s(float(batch), context))
    except InputError:
        return False
    share = changes.get("memory_fraction", query.memory_fraction)
    fits = memory_of(scenario, float(batch), context, 0.0, share).fits
    return bool(fits) and step_s <= bound_s
