"""Finds the inputs on which a verdict depends most. One uncertain input at a time is changed by a fixed
amount, and the effects on the speedup are ranked.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from perfmodel.answers.answer import Rows
from perfmodel.answers.declaration import asks
from perfmodel.answers.point.whatif_answer import Move
from perfmodel.answers.question import Query, length_of, resolve
from perfmodel.specs import CONSTANTS, Calibration, Constant
from perfmodel.speculation import Acceptance, Scenario, Workload, predict, with_calibration, with_values

ALPHA_STEP = 0.05
"""The change of the acceptance. This is an assumption, like the other two steps."""
BANDWIDTH_STEP = 0.10
"""The change of the memory bandwidth, as a share of its value."""
FIXED_STEP = 0.30
"""The change of fixed costs, as a share of their values."""
FIXED = ("fixed", "comm", "host", "overhead")
"""Terms of constants that cost time regardless of bytes and FLOPs."""


@asks(Query)
def sensitivity(query: Query) -> Rows[Move]:
    """The effect of each uncertain input on the speedup of a question. The input with the largest effect
    comes first.

    The draft length stays the same: the gamma of the query, or the best length if the query states none.
    Raises InputError for wrong input.
    """
    scenario = resolve(query)
    gamma = length_of(query, scenario)

    def speedup(changed: Scenario) -> float:
        return float(predict(changed, Workload.of(query.batch, query.context, gamma)).speedup)

    moves = []
    for moved in _moved_inputs(scenario, gamma):
        at_low = speedup(moved.with_low)
        at_high = speedup(moved.with_high)
        move = Move(
            moved.name,
            moved.low,
            moved.high,
            at_low,
            at_high,
            swing=abs(at_high - at_low),
            flips=(at_low > 1.0) != (at_high > 1.0),
        )
        moves.append(move)
    return Rows(tuple(sorted(moves, key=lambda move: -move.swing)))


@dataclass(frozen=True, slots=True)
class MovedInput:
    """An input, its low and its high value in words, and the scenario with each of these values."""

    name: str
    low: str
    high: str
    with_low: Scenario
    with_high: Scenario


def _moved_inputs(scenario: Scenario, gamma: int) -> Iterator[MovedInput]:
    """The uncertain inputs of a question."""
    if gamma:
        yield _acceptance(scenario, gamma)
    yield _by_share("memory bandwidth", BANDWIDTH_STEP, partial(_with_bandwidth, scenario))
    c = scenario.machine.calibration
    if c.allreduce is not None or any(CONSTANTS[name].unit == "s" for name in _fixed_costs(c)):
        yield _by_share("fixed costs", FIXED_STEP, partial(_with_fixed, scenario))
    if gamma:
        yield _rereads(scenario, gamma)


def _by_share(name: str, share: float, scaled: Callable[[float], Scenario]) -> MovedInput:
    """An input that is moved down and up by a share of its value.

    - scaled: a function that multiplies the input by a factor and returns the scenario.
    """
    return MovedInput(name, f"-{share:.0%}", f"+{share:.0%}", scaled(1.0 - share), scaled(1.0 + share))


def _acceptance(scenario: Scenario, gamma: int) -> MovedInput:
    """The acceptance, moved down and up by `ALPHA_STEP`. The middle is the alpha with the same tokens per
    iteration at this gamma.
    """
    alpha = float(scenario.known_acceptance.effective_alpha(gamma))
    low = max(alpha - ALPHA_STEP, 0.0)
    high = min(alpha + ALPHA_STEP, 1.0)

    def accepting(rate: float) -> Scenario:
        return scenario.with_acceptance(Acceptance.from_alpha(rate, source="sensitivity"))

    return MovedInput("acceptance alpha", f"{low:.3g}", f"{high:.3g}", accepting(low), accepting(high))


def _rereads(scenario: Scenario, gamma: int) -> MovedInput:
    """The number of times that a verification reads the cache: once, or once for each of its tokens."""

    def reading(times: float) -> Scenario:
        return replace(scenario, machine=replace(scenario.machine, kv_reread=times))

    name = "KV re-read factor of verification"
    return MovedInput(name, "1", f"{gamma + 1}", reading(1.0), reading(gamma + 1.0))


def _with_bandwidth(scenario: Scenario, factor: float) -> Scenario:
    gpu = scenario.machine.gpu
    bandwidth = gpu.memory_bandwidth.replace(value=gpu.memory_bandwidth.value * factor)
    return replace(
        scenario,
        machine=replace(scenario.machine, gpu=gpu.replace(memory_bandwidth=bandwidth)),
    )


def _fixed_costs(c: Calibration) -> dict[str, float]:
    """The constants that cost time regardless of bytes and FLOPs: name -> value."""
    declared = {name: getattr(c, name) for name, constant in CONSTANTS.items() if constant.term in FIXED}
    return {
        name: fixed.value for name, fixed in declared.items() if isinstance(fixed, Constant) and fixed.value
    }


def _with_fixed(scenario: Scenario, factor: float) -> Scenario:
    c = scenario.machine.calibration
    scaled = {name: value * factor for name, value in _fixed_costs(c).items()}
    return with_calibration(scenario, with_values(c, scaled))
