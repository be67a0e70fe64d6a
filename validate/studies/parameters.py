"""Defines a fitted constant of serving engines: its place in ``hardware/fitted/engines.yaml`` and its
expected value.

Few rows exist for one engine on one device. Every constant therefore has an expected value with a spread, and
differs from it only as far as its rows require. If the data show no difference between engines, they share
one constant, or one for each architecture. A version of an engine can have a factor on the engine's constant,
which is expected to be 1.
"""

from dataclasses import KW_ONLY, dataclass

from perfmodel.specs import DRIFT, ENGINES as STACKS


@dataclass(frozen=True, slots=True)
class PlacedConstant:
    """A fitted constant of engines.

    - place: the scope and the name of the constant, see `Engines.places`.
    - spread: the standard deviation of the prior of its logarithm.
    - times: whether it is a factor on the value of the kernels or of a wider scope.
    - source: the source of a constant that is not fitted here.
    - elsewhere: the value of the constant if the runs that determine it are left out. This value comes from
      kernels, from tables of engines, or from a similar constant that other sources determine; 0 if there is
      none.
    """

    place: str
    _: KW_ONLY
    expected: float
    spread: float
    times: bool = False
    source: str = ""
    elsewhere: float = 0.0

    @property
    def name(self) -> str:
        """The name of the constant in a calibration."""
        return self.place.rpartition(".")[2]

    @property
    def scope(self) -> str:
        """The scope of the constant: all, an architecture, a device, an engine, an engine on an architecture,
        or an engine from a version on.
        """
        return self.place.rpartition(".")[0]


def drift(engine: str, version: str, name: str, *, spread: float, expected: float = 1.0) -> PlacedConstant:
    """A factor on the constant of an engine. It applies from a version on, until the next version with a
    factor on the same constant.
    """
    return PlacedConstant(f"{engine}{DRIFT}{version}.{name}", expected=expected, spread=spread, times=True)


ENGINES = {word: STACKS[word] for word in ("vllm", "trtllm", "sglang")}
"""Engine whose constants are fitted -> its title."""
ARCHITECTURES = ("hopper", "blackwell")
