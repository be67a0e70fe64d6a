"""The inputs that decide a verdict: each uncertain input is moved alone by a stated amount, and the effects
are ranked.
"""

from collections.abc import Iterator
from dataclasses import replace

from perfmodel.answers.answer import Rows
from perfmodel.answers.declaration import asks
from perfmodel.answers.point.whatif import Move
from perfmodel.answers.question import Query, length_of, resolve
from perfmodel.specs import CONSTANTS, Calibration, Constant
from perfmodel.speculation import Acceptance, Scenario, Workload, predict, with_calibration, with_values

ALPHA_STEP = 0.05
BANDWIDTH_STEP = 0.10
FIXED_STEP = 0.30
FIXED = ("fixed", "comm", "host", "overhead")
"""Terms of constants that cost time regardless of bytes and FLOPs."""


@asks(Query)
def sensitivity(query: Query) -> Rows[Move]:
    """The effect of each uncertain input on the speedup of a question, the largest swing first.

    gamma stays at the query's, or at the best one if the query seeks it. Raises InputError.
    """
    scenario = resolve(query)
    gamma = length_of(query, scenario)

    def speedup(changed: Scenario) -> float:
        return float(predict(changed, Workload.of(query.batch, query.context, gamma)).speedup)

    moves = []
    for name, low, high, below, above in _moves(scenario, gamma):
        one = speedup(below)
        two = speedup(above)
        moves.append(Move(name, low, high, one, two, swing=abs(two - one), flips=(one > 1.0) != (two > 1.0)))
    return Rows(tuple(sorted(moves, key=lambda move: -move.swing)))


def _moves(scenario: Scenario, gamma: int) -> Iterator[tuple[str, str, str, Scenario, Scenario]]:
    """For each input: its name, its low and high value in words, and the two changed scenarios."""
    if gamma:
        yield _alpha(scenario, gamma)
    shares = [("memory bandwidth", BANDWIDTH_STEP, _with_bandwidth)]
    c = scenario.machine.calibration
    if c.allreduce is not None or any(CONSTANTS[name].unit == "s" for name in _fixed_costs(c)):
        shares.append(("fixed costs", FIXED_STEP, _with_fixed))
    for name, step, moved in shares:
        yield name, f"-{step:.0%}", f"+{step:.0%}", moved(scenario, 1.0 - step), moved(scenario, 1.0 + step)
    if gamma:
        machines = (replace(scenario.machine, kv_reread=factor) for factor in (1.0, gamma + 1.0))
        once, each = (replace(scenario, machine=machine) for machine in machines)
        yield "KV re-read factor of verification", "1", f"{gamma + 1}", once, each


def _alpha(scenario: Scenario, gamma: int) -> tuple[str, str, str, Scenario, Scenario]:
    """The acceptance moved up and down. It starts from the alpha with the query's own tokens per iteration at
    this gamma.
    """
    alpha = float(scenario.known_acceptance.effective_alpha(gamma))
    low = max(alpha - ALPHA_STEP, 0.0)
    high = min(alpha + ALPHA_STEP, 1.0)
    below, above = (
        scenario.with_acceptance(Acceptance.from_alpha(a, source="sensitivity")) for a in (low, high)
    )
    return "acceptance alpha", f"{low:.3g}", f"{high:.3g}", below, above


def _with_bandwidth(scenario: Scenario, factor: float) -> Scenario:
    gpu = scenario.machine.gpu
    bandwidth = gpu.memory_bandwidth.replace(value=gpu.memory_bandwidth.value * factor)
    return replace(
        scenario,
        machine=replace(scenario.machine, gpu=gpu.replace(memory_bandwidth=bandwidth)),
    )


def _fixed_costs(c: Calibration) -> dict[str, float]:
    """The constants that cost time regardless of bytes and FLOPs, each with the work that scales it."""
    declared = {name: getattr(c, name) for name, constant in CONSTANTS.items() if constant.term in FIXED}
    return {
        name: fixed.value for name, fixed in declared.items() if isinstance(fixed, Constant) and fixed.value
    }


def _with_fixed(scenario: Scenario, factor: float) -> Scenario:
    c = scenario.machine.calibration
    scaled = {name: value * factor for name, value in _fixed_costs(c).items()}
    return with_calibration(scenario, with_values(c, scaled))
