"""A served batch: mixed contexts and acceptances, CUDA graphs, stragglers, and passes that mix."""

from dataclasses import dataclass, fields
from typing import Annotated, ClassVar

from perfmodel.answers import arguments as arg
from perfmodel.answers.answer import Answer
from perfmodel.answers.arguments import asks, count, counts, numbers
from perfmodel.answers.mixed import ServedBatch, best_gamma, mixed_memory, served
from perfmodel.answers.query import UNUSED, CommonOptions, assumed, resolve
from perfmodel.answers.text import times
from perfmodel.errors import refuse
from perfmodel.speculation.chain import DEFAULT_MAX_GAMMA

MAX_SEQUENCES = 4096


@dataclass(frozen=True)
class ServingQuery(CommonOptions):
    """A question about one batch whose sequences differ in context and acceptance."""

    model: arg.Model
    hardware: arg.Hardware
    batch: Annotated[arg.Number, arg.Argument("Sequences decoded together.", "N", "--batch-size -b", count)]
    context: Annotated[
        arg.Numbers,
        arg.Argument(
            "Contexts that the sequences have, in turn; 32k is 32768.", arg.COUNTS, "--context-length -c", counts
        ),
    ]
    alpha: Annotated[
        arg.Numbers,
        arg.Argument("Acceptances that the sequences have, in turn, every context alike.", "RATES", read=numbers),
    ]
    gamma: Annotated[
        int | str | None,
        arg.Argument(
            "Drafted tokens per iteration; auto is the best from 1 on.", "N|auto", "-g", arg.gamma, default="auto"
        ),
    ] = None
    tp: arg.TP = 1
    draft: arg.Draft = "self"
    draft_kv: arg.DraftKV = None
    draft_tp: arg.DraftTP = None
    new_tokens: arg.NewTokens = 128
    max_gamma: arg.MaxGamma = DEFAULT_MAX_GAMMA
    graph_sizes: Annotated[
        arg.Numbers | None,
        arg.Argument("Token counts of captured CUDA graphs.", arg.COUNTS, read=counts, default="vLLM's, to 512"),
    ] = None

    def check(self) -> None:
        """See `Question.check`."""
        super().check()
        assert isinstance(self.context, tuple)
        assert isinstance(self.alpha, tuple)
        kinds = len(self.context) * len(self.alpha)
        allowed = f"a whole number from {kinds} (one sequence for each context and acceptance) to {MAX_SEQUENCES}"
        self.within("batch", kinds, MAX_SEQUENCES, allowed)
        self.within("max_gamma", 1, 256, "a whole number from 1 to 256")
        if self.gamma is not None and not (isinstance(self.gamma, int) and self.gamma >= 1):
            raise refuse("--gamma", None, "one whole number from 1 here, or auto", self.gamma)
        if not all(0 <= alpha <= 1 for alpha in self.alpha):
            raise refuse("--alpha", None, "numbers from 0 to 1", ", ".join(map(str, self.alpha)))


@dataclass(frozen=True, repr=False, kw_only=True)
class Serving(Answer, ServedBatch):
    """`ServedBatch`, what was asked, and whether the batch fits in memory."""

    COMPUTED: ClassVar[tuple[str, ...]] = ("steady_speedup",)

    batch: int
    contexts: tuple[float, ...]
    alphas: tuple[float, ...]
    gamma: int
    new_tokens: int
    fits: bool
    max_batch: int
    warnings: tuple[str, ...]
    calibration: str

    def headline(self) -> str:
        """See `Answer.headline`."""
        steady = f"{times(self.steady_speedup)} once hard requests hold more of the slots"
        return f"{times(self.speedup)}, {steady}; {self.batch} sequences, gamma {self.gamma}"


@asks(ServingQuery)
def serving(question: ServingQuery) -> Serving:
    """A batch of mixed contexts and acceptances, CUDA graphs that round it up, stragglers, and passes that mix.

    Slots are refilled at once; requests that are hard to draft for hold theirs longer. A static batch ends with its
    slowest request of new_tokens tokens. Raises InputError.
    """
    assert isinstance(question.context, tuple)
    assert isinstance(question.alpha, tuple)
    contexts, alphas, batch = question.context, question.alpha, int(question.batch)
    query = question.query(batch=batch, context=contexts[-1], alpha=None, gamma=question.gamma)
    scenario = resolve(query, UNUSED)
    at = [float(contexts[i % len(contexts)]) for i in range(batch)]
    rates = [alphas[i // len(contexts) % len(alphas)] for i in range(batch)]
    fraction = float(query.memory_fraction)
    gamma = int(question.gamma) if question.gamma else best_gamma(scenario, at, rates, int(query.max_gamma), fraction)
    new_tokens = int(question.new_tokens)
    beside = served(scenario, at, rates, gamma, question.graph_sizes, new_tokens)  # type: ignore[arg-type]
    room = mixed_memory(scenario, at, gamma, fraction).single()
    return Serving(
        **{f.name: getattr(beside, f.name) for f in fields(beside)},
        batch=batch,
        contexts=contexts,
        alphas=alphas,
        gamma=gamma,
        new_tokens=new_tokens,
        fits=room.fits,
        max_batch=room.max_batch,
        warnings=(*assumed(query, scenario), *room.shortage(batch)),
        calibration=scenario.machine.calibration.name,
    )
