"""Predicts separate pools for prefill and decoding: request rate, latency, and the best ratio of the pools,
with and without a draft.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from perfmodel.answers.load.pool_loads import row_at_rate, row_with_clients
from perfmodel.answers.load.pool_prices import (
    decoder_of,
    lengths_of,
    limits_of,
    needs_prompt,
    prompting_of,
    prompts_of,
    runs_draft,
    scenario_of,
    sent_bytes,
    steps_of,
    two_pools,
)
from perfmodel.answers.load.pool_question import Instances, transfer_of
from perfmodel.answers.load.pool_row import PoolRow
from perfmodel.answers.load.pools_answer import Pools
from perfmodel.answers.load.tpot_errors import served_log_errors
from perfmodel.answers.load.traffic_query import TrafficQuery
from perfmodel.answers.load.two_pools import TwoPools
from perfmodel.errors import InputError
from perfmodel.queueing.kv_room import sequences_of
from perfmodel.specs import Z
from perfmodel.speculation import Scenario

OUTPUTS_READ = (
    "the prefill pool does not cache outputs: each further turn computes the previous output again; the "
    "router sends a session to the instance that has its prompts"
)


def pools_of(question: TrafficQuery) -> Pools:
    """The prediction for the two pools of a question. Raises InputError for wrong input, or if not even one
    request fits in the memory of an instance.
    """
    prefill = Instances.of(question.prefill or "", "--prefill")
    decode = Instances.of(question.decode or "", "--decode")
    decoder = decoder_of(question)
    with _of_pool("--decode"):
        decoding = scenario_of(decoder, decode)
    _check_drafts(question, decoding)
    gammas = lengths_of(decoder, decoding)
    steps = steps_of(decoder, decode, decoding, gammas)
    with _of_pool("--prefill"):
        prompting = prompting_of(question, prefill)
    _check_room(question, prefill, prompting, "--prefill", question.lengths.input_mean)
    _check_room(question, decode, decoding, "--decode", question.lengths.context)
    drafting = dict.fromkeys(gamma > 0 for gamma in gammas)
    read = {drafts: prompts_of(question, prefill, prompting, drafts) for drafts in drafting}
    both = [two_pools(question, prefill, decode, decoding, read[each.gamma > 0], each) for each in steps]
    drafts = bool(max(gammas))
    ratio = {each.steps.gamma: each.ratio for each in both}
    best_split = {each.steps.gamma: each.best_split for each in both}
    link = transfer_of(question, decoding.machine.gpu)
    return Pools(
        prefill=question.prefill or "",
        decode=question.decode or "",
        prefill_gpus=prefill.devices,
        decode_gpus=decode.devices,
        rows=tuple(_rows(question, decoding, both)),
        ratio=ratio,
        best_split=best_split,
        transfer_bytes=sent_bytes(question, decoding, drafts),
        transfer_source=link.source,
        prefix_hit_rate=read[drafts].hit_rate,
        notes=_notes(question, both),
    )


def _rows(question: TrafficQuery, decoding: Scenario, both: Sequence[TwoPools]) -> Iterator[PoolRow]:
    """A row for each load and draft length. The error of TPOT is computed at the batch of the first load."""
    loop = question.loop
    limits_s = question.limits_s

    def row(pools: TwoPools, load: float) -> PoolRow:
        if question.opens:
            return row_at_rate(pools, load, limits_s)
        return row_with_clients(pools, load, loop.think_s, limits_s)

    loads = loop.values.tolist()
    batch = max(row(both[0], loads[0]).decode_batch, 1.0)
    gammas = [pools.steps.gamma for pools in both]
    log_off = served_log_errors(decoding, batch, question.lengths.context, gammas)
    for load in loads:
        for pools in both:
            error = log_off[pools.steps.gamma]
            interval = None
            if error is not None:
                factor = math.exp(Z * error)
                fast = row(pools.slowed(1.0 / factor), load)
                slow = row(pools.slowed(factor), load)
                interval = fast.tpot_s, slow.tpot_s
            yield replace(row(pools, load), tpot_interval=interval)


@contextmanager
def _of_pool(flag: str) -> Iterator[None]:
    """Adds the flag of a pool to error messages about its layout, because this flag states the layout."""
    try:
        yield
    except InputError as error:
        message = error.as_flags
        if not message.startswith(("--tp: ", "--dp: ", "--ep: ")):
            raise
        raise InputError(f"{flag}: {message.removeprefix('--')}") from None


def _check_drafts(question: TrafficQuery, decoding: Scenario) -> None:
    """Raises InputError if the draft of the decode pool needs the prompt, but the prefill pool runs another
    draft on it.
    """
    other = question.decode_draft not in ("run", "none", question.draft)
    if other and question.prefill_draft == "run" and needs_prompt(decoding):
        raise InputError(
            f"--decode-draft: no measurement is published of {decoding.draft.name} after prompts that "
            f"{question.draft} has read; give --prefill-draft none, or the same draft to both pools"
        )


def _check_room(
    question: TrafficQuery, instances: Instances, scenario: Scenario, flag: str, tokens: float
) -> None:
    """Raises InputError if one request of this many tokens does not fit in the memory of an instance."""
    limits = limits_of(question, instances)
    if sequences_of(scenario, tokens, np.array([0]), limits, 0.0)[0] < 1.0:
        weights = f"the weights of {scenario.target.name} on {instances.gpus} {scenario.machine.gpu.name}"
        raise InputError(
            f"{flag}: no request of {tokens:.0f} tokens fits next to {weights}: use more GPUs of an instance "
            "or smaller formats"
        )


def _notes(question: TrafficQuery, both: Sequence[TwoPools]) -> tuple[str, ...]:
    """Notes about the assumptions of the rows."""
    notes = ["batches and tokens per GPU follow from the rate (Little's law), not from the number of clients"]
    if any(each.first_alone for each in both):
        notes.append("the prefill pool does not run the draft: the first decode step drafts nothing")
    if runs_draft(question, False):
        notes.append(
            "the decode pool does not draft, so the prefill pool does not need the draft (--prefill-draft "
            "none)"
        )
    if question.turns > 1:
        notes.append(OUTPUTS_READ)
    return tuple(notes)
