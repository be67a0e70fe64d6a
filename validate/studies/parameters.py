"""Defines a fitted constant of serving engines: its place in ``hardware/fitted/engines.yaml`` and its
expected value.

There are few measurements of one engine on one device. Every constant therefore has a prior: an expected
value with a spread. If the data show no difference between engines, they share one constant, or one for each
GPU architecture. A version of an engine can have a factor on the engine's constant. This factor is expected
to be 1.
"""

from dataclasses import KW_ONLY, dataclass

from perfmodel.specs import ENGINES as STACKS, VERSION_SEPARATOR


@dataclass(frozen=True, slots=True)
class PlacedConstant:
    """A fitted constant of engines.

    - place: ``<scope>.<name>``, see `Engines.places`.
    - expected: the mean of the prior.
    - spread: the standard deviation of the logarithm in the prior.
    - times: whether the constant is a factor on the value of the kernels or of a wider scope.
    - source: the source of a constant that is set by hand; empty if the constant is fitted.
    - elsewhere: the value of a constant by hand without the runs that determine it. This value comes from
      kernels, from ``engine_decode.csv``, or from a similar constant that other sources determine; 0 if there
      is none.
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
        """The scope of the constant, which is ``all``, an architecture, a device or an engine. An engine can
        be limited to an architecture, or to versions from a given version on.
        """
        return self.place.rpartition(".")[0]


def drift(engine: str, version: str, name: str, *, spread: float, expected: float = 1.0) -> PlacedConstant:
    """A factor on the constant of an engine. It applies from this version up to the next version that has its
    own factor on the same constant.

    - name: the name of the constant.
    """
    return PlacedConstant(
        f"{engine}{VERSION_SEPARATOR}{version}.{name}", expected=expected, spread=spread, times=True
    )


ENGINES = {word: STACKS[word] for word in ("vllm", "trtllm", "sglang")}
"""Engine whose constants are fitted -> its title."""
ARCHITECTURES = ("hopper", "blackwell")
"""The GPU architectures with enough measurements for their own constants."""
