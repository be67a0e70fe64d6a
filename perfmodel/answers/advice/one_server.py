"""Makes the verdict, command lines, warnings and remedies for one server of a choice."""

from contextlib import suppress
from dataclasses import replace

import numpy as np

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.draft_lengths import LengthTable
from perfmodel.answers.advice.engine_lines import Export, export
from perfmodel.answers.advice.ranking import PricedPoint
from perfmodel.answers.advice.served_target import served_with
from perfmodel.answers.advice.servers import servers
from perfmodel.answers.advice.servers.base import ServedTarget
from perfmodel.answers.advice.servers.llamacpp import DEFAULT_LENGTH
from perfmodel.answers.point.remedies import remedies
from perfmodel.answers.point.verdict import Verdict, verdict
from perfmodel.answers.point.warnings import warnings
from perfmodel.answers.point.whatif_answer import Remedy
from perfmodel.answers.question import of_draft, of_power, resolve_costs
from perfmodel.errors import InputError
from perfmodel.specs import engine_of, served_id
from perfmodel.specs.models.names import base_name
from perfmodel.speculation import memory_of, speedup_interval, speedups


def point_speedup(query: AdviseQuery, point: PricedPoint) -> tuple[float, tuple[float, float] | None]:
    """The speedup of a point over the baseline at the same batch, and its 90 % interval, as in `whatif`."""
    s = point.candidate.scenario
    batch = float(point.batch)
    context = float(query.context)
    speedup = float(s.target_pass_s(batch, context)) / point.tpot_s
    return speedup, speedup_interval(s, batch, context, point.gamma, speedup)


def point_verdict(query: AdviseQuery, point: PricedPoint) -> Verdict:
    """The verdict of `whatif` for a point."""
    speedup, interval = point_speedup(query, point)
    return verdict(point.candidate.scenario, float(query.context), speedup, interval, point.gamma)


def remedies_of(query: AdviseQuery, rival: PricedPoint | None) -> tuple[Remedy, ...]:
    """The changes of engine flags or number formats with which the best draft pays off at its batch.

    - rival: the best point with a draft.
    """
    if rival is None:
        return ()
    s = rival.candidate.scenario
    point = query.query(
        batch=rival.batch,
        draft=s.draft.name,
        draft_kv=s.draft.kv.label(),
        draft_tp=s.draft.tensor_parallel,
        **rival.layout.arguments(),
    )
    baseline_s = float(s.target_pass_s(float(rival.batch), float(query.context)))
    return remedies(point, s, baseline_s / rival.tpot_s)


def serve(
    query: AdviseQuery,
    chosen: PricedPoint,
    seats: int | None = None,
    undecided: bool = False,
    pool: str | None = None,
) -> Export | None:
    """The command lines for one server of the choice, with the chosen draft length. The result is None if no
    command line is known for the engine.

    - seats: the largest number of sequences that the server may run at once; None means the chosen batch.
    - undecided: as in `export`.
    - pool: as in `ServedTarget`.
    """
    s = chosen.candidate.scenario
    if engine_of(s.machine.calibration) not in servers():
        return None
    context = query.context
    most = s.longest(max(chosen.gamma, DEFAULT_LENGTH)) if chosen.gamma else 0
    by_length = tuple(speedups(s, float(chosen.batch), float(context), np.arange(most + 1)).tolist())
    table = LengthTable.at(seats or chosen.batch, context, chosen.gamma, by_length)
    served, path = _served(query, chosen)
    layout = chosen.layout
    gpu = s.machine.gpu
    shares = layout.replicas > 1 and layout.server_gpus < gpu.box_devices
    served = replace(served, pool=pool, shares_host=shares, vendor=gpu.vendor)
    return export(table, s.draft, served, path, undecided=undecided)


def line_of(lines: Export, point: PricedPoint) -> str | None:
    """The command line of the engine for which the point was predicted. The result is None if there is no
    line for this engine.
    """
    engine = engine_of(point.candidate.scenario.machine.calibration)
    return None if engine is None else lines.lines.get(engine)


def nodes_text(query: AdviseQuery, point: PricedPoint) -> str:
    """What stands for the address in the line of a server on several nodes, and how the line of each other
    node differs. The result is empty for one node, and for an engine without command lines.
    """
    server = servers().get(engine_of(point.candidate.scenario.machine.calibration) or "")
    return "" if server is None else server.other_nodes(_served(query, point)[0])


def on_load_text(query: AdviseQuery, point: PricedPoint) -> str:
    """The sentence of `Server.quantising` about the server of a point; empty for an engine without command
    lines.
    """
    server = servers().get(engine_of(point.candidate.scenario.machine.calibration) or "")
    return "" if server is None else server.quantising(_served(query, point)[0])


def _served(query: AdviseQuery, point: PricedPoint) -> tuple[ServedTarget, str | None]:
    """The target and the path of the draft that a server of the point loads (see `served_with`)."""
    draft = point.candidate.asked.draft if point.gamma else None
    return served_with(query, point.candidate.scenario, draft)


def of_other_weights(query: AdviseQuery, point: PricedPoint) -> tuple[str, ...]:
    """A warning if the acceptance of a point was published for a model, but the server loads other weights
    (`model_path`), such as a fine-tune.
    """
    model_id = served_id(query.model)
    is_own = query.acceptance is not None or point.candidate.rate is not None
    if not point.gamma or is_own or query.model_path is None or model_id is None:
        return ()
    if base_name(model_id) in base_name(query.model_path.rstrip("/")):
        return ()
    known = f"the acceptance was published for {query.model}"
    return (f"{known}; {query.model_path} may accept fewer tokens: measure it",)


def warnings_of(chosen: PricedPoint, query: AdviseQuery) -> tuple[str, ...]:
    """The warnings about the choice and about all drafts that the question names."""
    s = chosen.candidate.scenario
    batch = float(chosen.batch)
    gamma = chosen.gamma
    context = float(query.context)
    memory = memory_of(s, batch, context, float(gamma), query.memory_fraction)
    notes = [*warnings(query, s, batch, context, gamma, memory.single()), *of_power(s, batch)]
    for name in query.draft or ():
        with suppress(InputError):  # a draft that cannot run is listed among the skipped ones
            named = query.query(
                batch=1, draft=name, draft_kv="full", draft_tp=None, **chosen.layout.arguments()
            )
            notes += of_draft(resolve_costs(named), context)
    return tuple(dict.fromkeys((*notes, *of_other_weights(query, chosen))))
