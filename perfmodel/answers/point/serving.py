"""A served batch: mixed contexts and acceptances, and CUDA graphs that round it up."""

from dataclasses import dataclass, replace

import numpy as np

from perfmodel.answers.answer import Answer
from perfmodel.answers.question import arguments as arg
from perfmodel.answers.question import readers
from perfmodel.answers.question.arguments import COUNTS, argument, asks, question
from perfmodel.answers.question.mixed import best_gamma, mixed_memory, mixed_s, mixed_speedup
from perfmodel.answers.question.query import UNUSED, CommonOptions, assumed, resolve
from perfmodel.answers.question.readers import Count, Counts, Numbers
from perfmodel.answers.text import times
from perfmodel.costs.graphs import VLLM_GRAPH_SIZES, padded
from perfmodel.errors import refuse
from perfmodel.speculation.acceptance import tokens_per_iteration
from perfmodel.speculation.chain import DEFAULT_MAX_GAMMA, predict
from perfmodel.speculation.workload import Workload

MAX_SEQUENCES = 4096


@question
class ServingQuery(CommonOptions):
    """A question about one batch whose sequences differ in context and acceptance."""

    batch: Count = argument("Sequences decoded together.", "N", "--batch-size -b")
    context: Counts = argument(
        "Contexts that the sequences have, in turn; 32k is 32768.", COUNTS, "--context-length -c"
    )
    alpha: Numbers = argument("Acceptances that the sequences have, in turn, every context alike.", "RATES")
    gamma: int | str | None = argument(
        "Drafted tokens per iteration; auto is the best from 1 on.",
        "N|auto",
        "-g",
        readers.gamma,
        shown="auto",
        default=None,
    )
    tp: arg.TP = 1
    draft: arg.Draft = "self"
    draft_kv: arg.DraftKV = None
    draft_tp: arg.DraftTP = None
    max_gamma: arg.MaxGamma = DEFAULT_MAX_GAMMA
    graph_sizes: Counts | None = argument(
        "Token counts of captured CUDA graphs.", COUNTS, shown="vLLM's, to 512", default=None
    )

    def check(self) -> None:
        super().check()
        assert isinstance(self.context, tuple)
        assert isinstance(self.alpha, tuple)
        kinds = len(self.context) * len(self.alpha)
        allowed = (
            f"a whole number from {kinds} (one sequence for each context and acceptance) to {MAX_SEQUENCES}"
        )
        self.within("batch", kinds, MAX_SEQUENCES, allowed)
        self.within("max_gamma", 1, 256, "a whole number from 1 to 256")
        if self.gamma is not None and not (isinstance(self.gamma, int) and self.gamma >= 1):
            raise refuse("--gamma", None, "one whole number from 1 here, or auto", self.gamma)
        if not all(0 <= alpha <= 1 for alpha in self.alpha):
            raise refuse("--alpha", None, "numbers from 0 to 1", ", ".join(map(str, self.alpha)))


@dataclass(frozen=True, repr=False)
class Serving(Answer):
    """One served batch; times are calibrated seconds of the whole group.

    target_s and speedup are of the mixed batch as it stands, mean_target_s and mean_speedup of one at the
    mean context and with every sequence's tokens per iteration at their mean. tokens_as_admitted is the mean
    over requests, tokens over occupied slots: a request of k tokens holds its slot for k / Omega iterations,
    so that slots see the harmonic mean. At the mean context, graph_target_s and graph_verify_s run
    padded_tokens and padded_verify tokens inside CUDA graphs, unpadded_target_s and unpadded_verify_s as many
    as there are, verify_s and iteration_s what the calibration's engine does. steady_speedup: where requests
    of every kind arrive alike and hold their slots for as long as they take.
    """

    target_s: float
    mean_target_s: float
    speedup: float
    mean_speedup: float
    steady_speedup: float
    tokens_as_admitted: float
    tokens: float
    verify_s: float
    padded_tokens: float
    padded_verify: float
    graph_target_s: float
    graph_verify_s: float
    unpadded_target_s: float
    unpadded_verify_s: float
    iteration_s: float
    batch: int
    contexts: tuple[float, ...]
    alphas: tuple[float, ...]
    gamma: int
    fits: bool
    max_batch: int
    warnings: tuple[str, ...]
    calibration: str

    def headline(self) -> str:
        steady = f"{times(self.steady_speedup)} once hard requests hold more of the slots"
        return f"{times(self.speedup)}, {steady}; {self.batch} sequences, gamma {self.gamma}"


@asks(ServingQuery)
def serving(question: ServingQuery) -> Serving:
    """A batch of mixed contexts and acceptances, and CUDA graphs that round it up.

    Slots are refilled at once; requests that are hard to draft for hold theirs longer. Raises InputError.
    """
    assert isinstance(question.context, tuple)
    assert isinstance(question.alpha, tuple)
    contexts, alphas, size = question.context, question.alpha, int(question.batch)
    query = question.query(batch=size, context=contexts[-1], alpha=None, gamma=question.gamma)
    scenario = resolve(query, UNUSED)
    if scenario.data_parallel > 1:
        raise refuse("--dp", None, "1 here: contexts differ within one group", scenario.data_parallel)
    at = [float(contexts[i % len(contexts)]) for i in range(size)]
    rates = [alphas[i // len(contexts) % len(alphas)] for i in range(size)]
    fraction = float(query.memory_fraction)
    gamma = (
        int(question.gamma)
        if question.gamma
        else best_gamma(scenario, at, rates, int(query.max_gamma), fraction)
    )
    batch, mean, verified = float(size), float(np.mean(at)), gamma + 1.0
    p = predict(scenario, Workload.of(batch, mean, gamma))
    each = np.asarray(tokens_per_iteration(gamma, np.asarray(rates)))
    admitted, tokens = float(np.mean(each)), float(1.0 / np.mean(1.0 / each))
    speedup = mixed_speedup(scenario, at, rates, gamma)
    given = question.graph_sizes if isinstance(question.graph_sizes, tuple) else ()
    captured = given or scenario.target_shard.graph_sizes or VLLM_GRAPH_SIZES
    graphs, bare = replace(scenario, graph_sizes=captured), replace(scenario, graph_sizes=())
    room = mixed_memory(scenario, at, gamma, fraction).single()
    return Serving(
        target_s=mixed_s(scenario, at),
        mean_target_s=float(p.target_s),
        speedup=speedup,
        mean_speedup=admitted * float(p.target_s / p.iteration_s),
        steady_speedup=speedup * tokens / admitted,
        tokens_as_admitted=admitted,
        tokens=tokens,
        verify_s=float(p.verify_s),
        padded_tokens=float(padded(batch, captured)),
        padded_verify=float(padded(batch * verified, captured)),
        graph_target_s=float(graphs.target_pass_s(batch, mean)),
        graph_verify_s=float(graphs.target_pass_s(batch, mean, verified)),
        unpadded_target_s=float(bare.target_pass_s(batch, mean)),
        unpadded_verify_s=float(bare.target_pass_s(batch, mean, verified)),
        iteration_s=float(p.iteration_s),
        batch=size,
        contexts=contexts,
        alphas=alphas,
        gamma=gamma,
        fits=room.fits,
        max_batch=room.max_batch,
        warnings=(*assumed(query, scenario), *room.shortage(size)),
        calibration=scenario.machine.calibration.name,
    )
