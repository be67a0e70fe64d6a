"""Describes the calibration of an answer, and the measurements on which it is based."""

from dataclasses import dataclass

from perfmodel.specs import ENGINES, Relation
from perfmodel.speculation import Scenario, is_transferred

RESTS_ON: dict[Relation, str] = {
    "seen": "fitted to this model on this device",
    "version": "fitted to other versions with this model on this device",
    "model": "fitted to other models on this device",
    "gpu": "fitted to this device's kernels and to steps on other devices",
    "transferred": "fitted to the kernels of another device",
    "maker": "fitted to the kernels of another vendor's device",
}
"""Relation between the question and the most similar measurements of the engine -> words for these
measurements.
"""


@dataclass(frozen=True, slots=True)
class Calibrated:
    """The calibration of an answer.

    - name: its name.
    - stack: the engine or research code and its version.
    - kind: the kind that its file states, or ``transferred`` if the calibration was made for another device.
    - fitted_on: the data to which it was fitted.
    - rests_on: the measurements of the engine that are most similar to the question, in words; None for
      research code.
    """

    name: str
    stack: str
    kind: str
    fitted_on: tuple[str, ...]
    rests_on: str | None = None

    @classmethod
    def of(cls, scenario: Scenario) -> "Calibrated":
        """Describes the calibration of a scenario."""
        calibration = scenario.machine.calibration
        return cls(
            name=calibration.name,
            stack=f"{calibration.stack} {calibration.version}".strip(),
            kind="transferred" if is_transferred(scenario) else calibration.kind,
            fitted_on=calibration.fitted_on,
            rests_on=_rests_on(scenario),
        )


def _rests_on(scenario: Scenario) -> str | None:
    """The engine's measurements that are most similar to a scenario, in words; None for research code."""
    calibration = scenario.machine.calibration
    if calibration.constants_of:
        return f"the constants of {ENGINES[calibration.constants_of]}"
    if not calibration.errors:
        return None
    return RESTS_ON[calibration.relation("target_s", scenario.target.name, scenario.machine.gpu)]
