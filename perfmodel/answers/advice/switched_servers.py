"""Finds engine flags with which servers are faster under a load in the same number formats: another attention
backend, or a larger share of the memory.
"""

import math
from collections.abc import Iterator
from dataclasses import replace

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.alternatives import Alternative, BetterChange
from perfmodel.answers.advice.better_changes import BETTER_SWITCH, change_of, new_defects
from perfmodel.answers.advice.load_order import decoding_share, time_s
from perfmodel.answers.advice.load_reasons import served_with_draft, sooner_text
from perfmodel.answers.advice.one_server import point_verdict
from perfmodel.answers.advice.other_servers import best_on
from perfmodel.answers.advice.served import Served
from perfmodel.answers.advice.smaller_servers import NOTICED
from perfmodel.answers.advice.started import started
from perfmodel.answers.advice.ways import LARGE_SHARE
from perfmodel.answers.point.remedies import other_backends
from perfmodel.specs import serving_engine_of


def with_other_backend(question: AdviseQuery, chosen: Served) -> Iterator[tuple[BetterChange, Alternative]]:
    """The fastest servers with another attention backend, in the layout of the choice. Yields nothing if the
    question states the backend, or if all others are less than `BETTER_SWITCH` times as fast.
    """
    if question.attention_backend is not None or question.kv_reread is not None:
        return
    layout = chosen.candidate.layout
    most_s = math.inf if question.objective == "latency" else chosen.request_s / BETTER_SWITCH
    found: list[tuple[float, AdviseQuery, Served]] = []
    for name in other_backends(chosen.candidate.scenario):
        changed = replace(question, gpus=layout.gpus, attention_backend=name)
        best = best_on(changed, [layout], most_s=most_s)
        if best is not None:
            found.append((time_s(chosen, question) / time_s(best, question), changed, best))
    gain, changed, best = max(found, key=lambda each: each[0], default=(0.0, question, chosen))
    if gain < BETTER_SWITCH:
        return
    flags = f"--attention-backend {changed.attention_backend}"
    text = f"With {flags}{_pays(changed, best)} {sooner_text(chosen, best)}: {served_with_draft(best)}"
    text += new_defects(changed, best.point, chosen.point)
    at_its_batch = best.at_its_batch(changed)
    change = change_of(flags, changed, at_its_batch, gain, decoding_share(best, changed))
    yield change, started(text, changed, best)


def _pays(question: AdviseQuery, served: Served) -> str:
    """A clause that says that the draft of these servers is not certain to gain; empty otherwise."""
    if not served.row.gamma or point_verdict(question, served.at_its_batch(question)) == "pays":
        return ""
    return ", where the draft may pay off,"


def with_larger_share(question: AdviseQuery, chosen: Served) -> Alternative | None:
    """The servers of the choice with a larger share of the memory, if clients wait for a seat because memory
    is full and requests then end sooner. The result is None if the question states the share, or if the
    engine has no such setting.
    """
    most = max(chosen.asked.max_concurrency or (0,))
    if chosen.seats >= most or question.memory_fraction is not None:
        return None
    engine = serving_engine_of(chosen.candidate.scenario.machine.calibration)
    if engine is None or engine.conversion is not None:
        return None
    layout = chosen.candidate.layout
    changed = replace(question, gpus=layout.gpus, memory_fraction=LARGE_SHARE)
    most_s = NOTICED * chosen.request_s
    best = best_on(changed, [layout], most_s=most_s)
    if best is None or best.seats <= chosen.seats or best.request_s > most_s:
        return None
    seats = f"a server runs {best.seats} of {most} requests at once, not {chosen.seats}"
    text = f"With --memory-fraction {LARGE_SHARE} {seats}, and {sooner_text(chosen, best)}"
    return started(f"{text}; the server may then run out of memory", changed, best)
