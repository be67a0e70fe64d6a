"""One constant of serving engines: its place in ``hardware/fitted/engines.yaml`` and its expectation.

Few rows determine little about one engine on one device. So every constant starts from an expectation with a
spread, and moves as far as its rows require. A constant that the data show to be common is one for all
engines, or for an architecture. Changes between versions are factors of each version on the engine's
constant, expected to be 1.
"""

from dataclasses import KW_ONLY, dataclass

from perfmodel.specs import DRIFT, ENGINES as STACKS


@dataclass(frozen=True, slots=True)
class PlacedConstant:
    """One constant of engines.

    place: scope and name, as in `Engines.places`. spread: standard deviation of the logarithm. times: whether
    it multiplies the kernels' value, or that of other devices. source: of a constant that is stated and not
    fitted here. elsewhere: its value without the runs that determine it, from kernels, tables of engines, or
    a constant of the same work that other sources determine; 0 without any.
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
        """The calibration constant."""
        return self.place.rpartition(".")[2]

    @property
    def scope(self) -> str:
        """Its scope: all, an architecture, a board, an engine, an engine on an architecture, or an engine
        from a version on.
        """
        return self.place.rpartition(".")[0]


def drift(engine: str, version: str, name: str, *, spread: float, expected: float = 1.0) -> PlacedConstant:
    """Factor on an engine's constant from a version on, until the next version that states it."""
    return PlacedConstant(f"{engine}{DRIFT}{version}.{name}", expected=expected, spread=spread, times=True)


ENGINES = {word: STACKS[word] for word in ("vllm", "trtllm", "sglang")}
"""Engines whose constants are fitted -> their titles."""
ARCHITECTURES = ("hopper", "blackwell")
