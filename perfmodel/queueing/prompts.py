"""The time that prompts add to a pass in the layers, in attention and in the draft."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfmodel import costs
from perfmodel.costs.compiled import Program
from perfmodel.costs.kinds.experts import ExpertsOp
from perfmodel.costs.kinds.gemm import GemmOp
from perfmodel.costs.operation import Op
from perfmodel.costs.shards import Shard
from perfmodel.kv.full import Full
from perfmodel.operations import Array, Floats
from perfmodel.specs.calibrations.engine_words import engine_of, serving_engine_of
from perfmodel.specs.engines.engines import architecture_of
from perfmodel.specs.engines.request_costs import EngineRequests, request_constants
from perfmodel.specs.engines.served_requests import PassOrder
from perfmodel.speculation.scenario import Scenario


def engine_requests(scenario: Scenario) -> EngineRequests:
    """The request costs of the scenario's engine."""
    machine = scenario.machine
    return request_constants().of(engine_of(machine.calibration), architecture_of(machine.gpu))


def pass_order(scenario: Scenario, of_engine: EngineRequests) -> PassOrder:
    """How prompts and decoding share passes. The engine's version determines it, if its scheduler is known.
    Otherwise the order is the one that was assumed when the request costs of the engine were fitted.
    """
    calibration = scenario.machine.calibration
    engine = serving_engine_of(calibration)
    if engine is not None and engine.scheduler is not None:
        return engine.scheduler.order(calibration.version)
    return PassOrder.ALTERNATING if of_engine.prompts_alone else PassOrder.MIXED


def layers_s(scenario: Scenario, tokens: Floats, of_engine: EngineRequests) -> Floats:
    """Seconds of a pass over `tokens` prompt tokens, without attention.

    Calibrations come from short runs and from experts with few tokens, so the times of prompts need a
    correction. `prompt_factor` multiplies the time of the experts. If it is above 1, it also multiplies the
    compute time of all other GEMMs, but only if serving runs of the engine were fitted. The calibration of
    llama.cpp was itself fitted to prompts.
    """
    ops = _prompt_ops(scenario, tokens / scenario.target_shard.groups)
    factor = _gemm_factor(scenario, of_engine)
    slowed = [_slowed(op, factor) for op in ops if op.kind not in ("attention", "upkeep")]
    longer_s = (of_engine.prompt_factor - 1.0) * _experts_s(scenario, ops)
    return scenario.machine.predicted_s(slowed, tokens) + longer_s


def _gemm_factor(scenario: Scenario, of_engine: EngineRequests) -> float:
    """The factor on the computing time of the GEMMs of a prompt."""
    if not request_constants().has_rows(engine_of(scenario.machine.calibration)):
        return 1.0
    return max(of_engine.prompt_factor, 1.0)


def _slowed(op: Op, factor: float) -> Op:
    """The operation with a longer compute time if it is a GEMM. Other operations are unchanged."""
    if factor == 1.0 or not isinstance(op, GemmOp) or isinstance(op, ExpertsOp):
        return op
    return op.replace(cost=op.cost.replace(flops=factor * op.cost.flops))


def prompt_experts_s(scenario: Scenario, tokens: Floats, of_engine: EngineRequests) -> Floats:
    """The seconds that routed experts take, as a part of `layers_s`. Experts compute the tokens of all
    data-parallel groups.
    """
    ops = _prompt_ops(scenario, tokens / scenario.target_shard.groups)
    return of_engine.prompt_factor * _experts_s(scenario, ops)


def _experts_s(scenario: Scenario, ops: Sequence[Op]) -> Floats:
    """Seconds of the routed experts."""
    experts = (op for op in ops if isinstance(op, ExpertsOp))
    return sum(map(scenario.machine.op_predicted_s, experts), start=0.0)


def prompt_attention_s(scenario: Scenario, tokens: Floats) -> Floats:
    """Seconds of attention over a whole prompt, on the devices of one data-parallel group. If a pass has
    several micro-batches, the whole prompt is in one of them.
    """
    shard = scenario.target_shard
    if shard.micro_batches > 1:
        shard = replace(shard, micro_batches=1, _stacks={})
    attention = (op for op in _ops_of(shard, 1.0, tokens) if op.kind == "attention")
    return sum(map(scenario.machine.op_predicted_s, attention), start=0.0)


def prompt_launches_s(scenario: Scenario, of_engine: EngineRequests, tokens: float, drafts: bool) -> float:
    """Seconds that kernel launches add to a pass over this number of prompt tokens."""
    graphs = tokens <= _graph_tokens(scenario, drafts)
    return _launches_s(scenario, of_engine, graphs)


def _launches_s(scenario: Scenario, of_engine: EngineRequests, graphs: bool) -> float:
    """Seconds that launches add to a pass over prompts.

    - graphs: whether the pass runs as pieces of a CUDA graph, with separate launches between them. Otherwise
      every kernel is launched separately.
    """
    ops = _prompt_ops(scenario, 1.0)
    if graphs:
        cuts = sum(op.kernels for op in ops if op.cuts_graphs)
        launches = 1.0 + cuts + sum(op.prompt_kernels for op in ops if op.cuts_graphs)
    else:
        launches = sum(op.prompt_kernels for op in ops)
    return of_engine.prompt_kernel_s * float(launches) / scenario.target_shard.groups


def _graph_tokens(scenario: Scenario, drafts: bool) -> float:
    """Largest number of tokens of a pass over prompts that the engine runs as CUDA graphs. The result is 0
    with data-parallel attention groups.
    """
    calibration = scenario.machine.calibration
    engine = serving_engine_of(calibration)
    shard = scenario.target_shard
    if engine is None or engine.prompt_graphs is None or shard.groups > 1:
        return 0.0
    return engine.prompt_graphs.most_tokens(shard.model, scenario.machine.gpu, calibration.version, drafts)


def prompt_draft_s(scenario: Scenario, tokens: Floats) -> Floats:
    """Seconds that a draft adds to a prompt. Unless the draft shares the prefill of the target, the time of
    one draft pass is subtracted, because the draft runs such a pass anyway.
    """
    seconds = scenario.setup_s(1.0, tokens)
    if scenario.draft.shares_prefill:
        return seconds
    return np.maximum(seconds - scenario.draft_pass_s(1.0, tokens), 0.0)


def prompt_alone_s(
    scenario: Scenario, tokens: float, of_engine: EngineRequests, budget: float, drafts: bool
) -> float:
    """Seconds to read one prompt while nothing else runs. Each pass reads at most `budget` tokens over all
    data-parallel groups.

    Only one data-parallel group reads the prompt, so the experts compute only the tokens of this group.
    """
    groups = scenario.target_shard.groups
    chunk = min(tokens, budget / groups)
    passes = tokens / chunk
    experts_s = of_engine.prompt_factor * float(_experts_s(scenario, _prompt_ops(scenario, chunk)))
    each = float(layers_s(scenario, chunk * groups, of_engine)) - (1.0 - 1.0 / groups) * experts_s
    own = float(prompt_attention_s(scenario, tokens))
    draft = float(prompt_draft_s(scenario, tokens)) if drafts else 0.0
    launches_s = prompt_launches_s(scenario, of_engine, chunk, drafts)
    return passes * each + math.ceil(passes) * launches_s + own + draft


def _prompt_ops(scenario: Scenario, tokens: Floats) -> list[Op]:
    """The operations of a pass over one prompt, of which each micro-batch reads an equal part."""
    count = scenario.target_shard.micro_batches
    return _ops_of(scenario.target_shard, float(count), tokens / count)


def _ops_of(shard: Shard, prompts: float, tokens: Floats) -> list[Op]:
    """The operations of a pass over `prompts` prompts of `tokens` tokens each."""
    ops = costs.forward(shard, costs.PassShape(prompts, tokens, 0.0, head_query=1.0), Full())
    return [op.replace(of_prompt=True) if isinstance(op, ExpertsOp) else op for op in ops]


@dataclass(frozen=True, slots=True, eq=False)
class PromptPrograms:
    """The functions of this module for one scenario, compiled into functions of a number of tokens.

    - launches_s: a function that returns the seconds that kernel launches add to a pass. The arguments of the
      function are the number of prompt tokens and whether there is a draft.
    - alone: whether prompts run in separate passes, without decoding requests.
    """

    layers: Program
    attention: Program
    draft: Program
    launches_s: Callable[[float, bool], float]
    groups: int
    alone: bool

    @classmethod
    def of(cls, scenario: Scenario) -> "PromptPrograms":
        """Compiles the functions of this module for a scenario."""
        of_engine = engine_requests(scenario)
        layers = Program(lambda tokens: layers_s(scenario, tokens, of_engine), "tokens")
        attention = Program(lambda tokens: prompt_attention_s(scenario, tokens), "tokens")
        draft = Program(lambda tokens: prompt_draft_s(scenario, tokens), "tokens")
        one_by_one_s = _launches_s(scenario, of_engine, graphs=False)
        graphs_s = _launches_s(scenario, of_engine, graphs=True)
        most_tokens = {drafts: _graph_tokens(scenario, drafts) for drafts in (False, True)}

        def launches_s(tokens: float, drafts: bool) -> float:
            return graphs_s if tokens <= most_tokens[drafts] else one_by_one_s

        return cls(
            layers,
            attention,
            draft,
            launches_s,
            scenario.target_shard.groups,
            pass_order(scenario, of_engine) is not PassOrder.MIXED,
        )

    def added_s(self, new: Array, past: Array, decoding: float, drafts: bool) -> float:
        """Seconds that chunks of prompts add to a pass that also runs `decoding` other tokens.

        - new: number of tokens of each chunk.
        - past: number of tokens of the same prompt before the chunk.

        The attention time of a chunk is a difference of two times. The first is that of attention over the
        prompt up to the end of the chunk. The second is that of attention up to the start of the chunk.
        """
        other = 0.0 if self.alone else decoding
        read = float(new.sum())
        seconds = self.layers.number(other + read)
        if other:
            seconds = max(seconds - self.layers.number(other), 0.0)
        each = _between(self.attention, past, past + new)
        if drafts:
            each += _between(self.draft, past, past + new)
        return seconds + each / self.groups + self.launches_s(read, drafts)


def _between(program: Program, start: Array, end: Array) -> float:
    """The increase of a program's value from start to end, summed over all requests. The value is 0 at 0
    tokens.
    """
    before = np.where(start > 0.0, program(np.maximum(start, 1.0)), 0.0)
    return float(np.sum(program(end) - before))
