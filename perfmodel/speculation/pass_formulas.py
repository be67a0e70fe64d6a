"""The formulas of a scenario's times: its passes, the work of an iteration outside its passes, and the work
before the first token.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from perfmodel import costs
from perfmodel.costs.formulas import Formula, Runs
from perfmodel.costs.operation import Op
from perfmodel.kv.full import Full
from perfmodel.operations import Floats
from perfmodel.specs import serving_engine_of, serving_engines
from perfmodel.speculation.counted import CountedScenario
from perfmodel.speculation.programs import PassFormulas


def formulas_of(scenario: CountedScenario) -> PassFormulas:
    """The formulas of a scenario's times. The formulas use the `summed` shares of the models. A compiled
    program instead lists all operations one by one, because it cannot combine similar operations in one
    array.
    """

    def target(
        batch: Floats, context: Floats, query: Floats, deviation: Floats, shard: costs.Shard
    ) -> Floats:
        spread = scenario
        if deviation is not scenario.context_std:
            spread = scenario.with_context_std(deviation)
        return scenario.machine.predicted_s(spread.target_ops(batch, context, query, shard), batch * query)

    def draft(batch: Floats, context: Floats, query: Floats, shard: costs.Shard) -> Floats:
        ops = scenario.draft_ops(batch, context, query, shard)
        return scenario.draft_machine.predicted_s(ops, batch * query)

    def surplus(batch: Floats, context: Floats, query: Floats, shard: costs.Shard) -> Floats:
        load_s, compute_s = scenario.machine.load_and_compute_s(
            scenario.target_ops(batch, context, query, shard)
        )
        return compute_s - load_s

    def target_step(batch: Floats, context: Floats, query: Floats, shard: costs.Shard) -> tuple[Floats, ...]:
        ops = scenario.target_ops(batch, context, query, shard)
        return scenario.machine.time(ops, batch * query).figures

    def draft_step(batch: Floats, context: Floats, query: Floats, shard: costs.Shard) -> tuple[Floats, ...]:
        ops = scenario.draft_ops(batch, context, query, shard)
        return scenario.draft_machine.time(ops, batch * query).figures

    def of(formula: Callable[..., Any], summed: costs.Shard, *names: str) -> Formula:
        apart = replace(summed, itemised=True)
        return Formula(
            lambda *numbers: formula(*numbers, summed),
            *names,
            runs=runs,
            recorded=lambda *numbers: formula(*numbers, apart),
        )

    runs = Runs()
    whole = scenario.summed_target
    drafting = scenario.summed_draft
    point = ("batch", "context", "query")
    return PassFormulas(
        target=of(target, whole, *point, "deviation"),
        draft=of(draft, drafting, *point),
        overhead=Formula(partial(outside_passes_s, scenario), "batch", "context", runs=runs),
        surplus=of(surplus, whole, *point),
        target_step=of(target_step, whole, *point),
        draft_step=of(draft_step, drafting, *point),
        setup=Formula(partial(before_first_token_s, scenario), "batch", "context", runs=runs),
    )


def outside_passes_s(scenario: CountedScenario, batch: Floats, context: Floats) -> Floats:
    """Seconds of an iteration outside its draft steps and its verification. These seconds consist of
    rebuilding by the KV method, work that the draft does once per iteration, and the end of the iteration.
    Some engines also run a pass of the draft over the verified tokens.
    """
    rebuild = costs.selection(scenario.draft_shard, batch, context, scenario.draft.kv, "iteration")
    once = [*rebuild, *scenario.draft.iteration_ops(scenario.draft_shard, batch)]
    c = scenario.machine.calibration
    end = end_s(scenario, batch)
    own_cache = not (scenario.draft.views_target_cache or scenario.draft.model.shared_kv_layers)
    engine = serving_engine_of(c)
    reads_verified = engine is not None and engine.drafts_read_verified
    if reads_verified and own_cache and not scenario.draft.in_one_pass:
        end = end + scenario.draft_machine.predicted_s(_reading_verified(scenario, batch, context), batch)
    return sum((scenario.draft_machine.op_predicted_s(op) for op in once), start=end)


def end_s(scenario: CountedScenario, batch: Floats) -> Floats:
    """Seconds to accept verified tokens, per iteration or per inner round of two-level drafting."""
    c = scenario.machine.calibration
    end: Floats = c.iteration_fixed_s.value
    if c.iteration_sequence_s.value:
        end = end + c.iteration_sequence_s.value * batch / scenario.machine.schedulers
    return end


def _reading_verified(scenario: CountedScenario, batch: Floats, context: Floats) -> list[Op]:
    """The operations of a draft pass over the verified tokens, which counts as a pass over one token. A draft
    that starts from the target's features does not run its LM head in this pass.
    """
    ops = scenario.draft_ops(batch, context)
    if scenario.draft.starts_from_features:
        return [op for op in ops if op.name != "lm_head"]
    return ops


def before_first_token_s(scenario: CountedScenario, batch: Floats, context: Floats) -> Floats:
    """Seconds by which the draft delays the first token. These seconds consist of the draft's prefill, and of
    the scoring and gathering of its KV method.
    """
    once = costs.selection(scenario.draft_shard, batch, context, scenario.draft.kv, "setup")
    seconds = sum((scenario.draft_machine.op_predicted_s(op) for op in once), start=0.0)
    if scenario.draft.shares_prefill:
        return seconds
    prompt = costs.PassShape(batch, query=context, context=0.0)
    attends = scenario.draft.kv if scenario.draft.kv.needs_own_prefill else Full()
    engine = serving_engines().get(scenario.machine.calibration.stack)
    if engine is None or not engine.heads_of_prompts or not scenario.draft.starts_from_features:
        prefill = costs.forward(scenario.draft_shard, prompt.replace(head_query=1.0), attends)
        return seconds + scenario.draft_machine.predicted_s(prefill, batch)
    prefill = costs.forward(scenario.draft_shard, prompt, attends)
    whole = costs.forward(scenario.target_shard, prompt, Full())
    head_s = sum(scenario.machine.op_predicted_s(op) for op in whole if op.name == "lm_head")
    return seconds + head_s + scenario.draft_machine.predicted_s(prefill, batch)
