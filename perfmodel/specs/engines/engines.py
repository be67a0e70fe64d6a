"""The costs of serving engines outside their kernels, from ``hardware/fitted/engines.yaml``.

A calibration of kind ``kernels`` has the public kernel tables of one device with one engine. The constants of
engines do not depend on the device. They are stated for four scopes: all engines, a GPU architecture, an
engine, and an engine on an architecture. A later scope in this list takes precedence. Corrections for a
single board have its name as their key, in the same list as the architectures. Each entry states a constant
of the calibration, or multiplies the value from the kernel file. A change between versions of an engine is a
factor that applies from a version on.
"""

import datetime
import re
from functools import cache
from typing import Annotated, TypeVar

from msgspec import Meta, field

from perfmodel.specs.boundary import files
from perfmodel.specs.boundary.frozen import FINITE, Frozen, Positive, Text
from perfmodel.specs.calibrations.constants import Constant
from perfmodel.specs.calibrations.fit_errors import Quantity, Relation, Scatter, StatedFit
from perfmodel.specs.devices.gpu import GPUSpec
from perfmodel.specs.devices.loading import load_gpu

Fact = TypeVar("Fact")
FOLDER = "fitted"
FILE = "engines.yaml"
VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?(?:rc(\d+))?")
"""A version, such as 0.22, 0.20.1 or 1.2.0rc6."""
BUILD = re.compile(r"b(\d{1,9})")
"""llama.cpp numbers its builds: b10451."""
VERSION_SEPARATOR = "@"
"""Separator between an engine and its version, in a place and in ``--engine vllm@0.22``."""
GDDR = "gddr"
"""The scope of corrections for boards with GDDR memory."""
SM120 = "sm120"
"""The architecture of boards with compute capability 12, as a scope in the file."""
WORKSTATION = "Blackwell GB"
"""The beginning of the name of their architecture in device files."""
ONLY = "/"
"""Separator between a version and the only architecture of a drift."""
_NO_CANDIDATE = 10**6
"""Sorts a release after all its release candidates."""
Number = Annotated[float, Meta(ge=0, le=FINITE)]


class Stated(Frozen):
    """One fitted number of an engine.

    - times: whether the number multiplies the value from the kernel file.
    """

    value: Number
    stderr: Number
    times: bool = False
    source: Text

    def on(self, base: Constant) -> Constant:
        """The constant that results from applying this entry to the constant `base`."""
        scale = base.value if self.times else 1.0
        return Constant(value=scale * self.value, stderr=scale * self.stderr, source=self.source)


Constants = dict[str, Stated]


class FittedEngine(Frozen):
    """The fitted constants of one engine.

    - measured: models whose baseline steps were fitted, by device.
    - speculating: models whose speculative iterations were fitted, by device.
    - versions: engine versions of the fitted rows, the newest last.
    - drifts: factors on constants, by the version from which they apply. A later version may replace the
      factor of a constant. A key ``VERSION/ARCHITECTURE`` applies only to this architecture.
    - drafts: kinds of draft of the fitted iterations.
    - longest_tokens: longest context of the fitted iterations.
    - widest_tokens: largest number of tokens that one of these iterations verified.
    - errors: errors of predictions, by the part of the measurements that was left out of the fit.
    """

    versions: Annotated[tuple[str, ...], Meta(min_length=1)]
    drifts: dict[str, Constants] = field(default_factory=dict)
    constants: Constants = field(default_factory=dict)
    architectures: dict[str, Constants] = field(default_factory=dict)
    measured: dict[str, tuple[str, ...]] = field(default_factory=dict)
    speculating: dict[str, tuple[str, ...]] = field(default_factory=dict)
    drafts: tuple[str, ...] = ()
    longest_tokens: Number = 0.0
    widest_tokens: Number = 0.0
    errors: dict[Relation, dict[Quantity, Scatter]]


class Engines(Frozen):
    """The contents of ``hardware/fitted/engines.yaml``. The parameters of `fit` are the constants of
    iterations. A constant is named by its place in the file, such as ``all.drafted_token_s``.

    - acceptance: error of tokens per iteration at draft lengths that were not measured, per unit of ln((gamma
      + 1) / (measured gamma + 1)).
    - unseen_draft: error of iteration time divided by step time, if all rows of the kind of draft are left
      out of the fit.
    - unseen_context: the same error if long contexts are left out, per unit of ln(context / longest fitted
      context).
    - unseen_width: the same error if verifications of many tokens are left out, per unit of ln(verified
      tokens / most fitted tokens).
    """

    fitted_on: tuple[str, ...]
    acceptance: Scatter
    unseen_draft: Scatter
    unseen_context: Scatter
    unseen_width: Scatter
    date: datetime.date
    graph_tokens: tuple[Positive, Positive] | None = None
    constants: Constants
    architectures: dict[str, Constants]
    engines: dict[str, FittedEngine]
    fit: StatedFit

    def places(self) -> dict[str, Stated]:
        """All constants by their places in the file."""
        return {
            f"{scope}.{name}": s
            for scope, constants in self._scopes().items()
            for name, s in constants.items()
        }

    def _scopes(self) -> dict[str, Constants]:
        scopes = {"all": self.constants, **self.architectures}
        for word, engine in self.engines.items():
            scopes[word] = engine.constants
            scopes |= {
                f"{word}{VERSION_SEPARATOR}{since}": constants for since, constants in engine.drifts.items()
            }
            scopes |= {f"{word}.{name}": constants for name, constants in engine.architectures.items()}
        return scopes

    def drifted(self, engine: str, version: str, architecture: str = "") -> dict[str, Stated]:
        """The constants that changed between an engine's versions, with their factors in this version.

        - architecture: if given, only factors for this architecture (``VERSION/ARCHITECTURE``) are returned.
          By default, only factors for all architectures are returned.
        """
        stated: dict[str, Stated] = {}
        drifts = self.engines[engine].drifts
        for first in sorted(drifts, key=release):
            is_reached = release(first) <= release(version)
            if is_reached and first.partition(ONLY)[2] == architecture:
                stated |= drifts[first]
        return stated

    def of_device(self, engine: str, version: str, other: tuple[str, ...], board: str) -> list[Constants]:
        """Corrections of an engine's constants, in the order in which they apply. Corrections for the scopes
        `other` come first, such as an architecture that differs from that of the kernels. Corrections for the
        board come second. Changes between versions that apply only to one of these scopes come last. An entry
        with `times` multiplies the constant.
        """
        layers = (
            constants.get(s, {})
            for s in (*other, board)
            for constants in (self.architectures, self.engines[engine].architectures)
        )
        return [*layers, *(self.drifted(engine, version, own) for own in other)]

    def chosen(self, engine: str, architecture: str) -> dict[str, str]:
        """The constants that this engine has on this architecture, with their places in the file."""
        order = ("all", architecture, engine, f"{engine}.{architecture}")
        scopes = self._scopes()
        return {name: f"{scope}.{name}" for scope in order for name in scopes.get(scope, ())}


@cache
def engines() -> Engines:
    """The contents of the bundled file ``hardware/fitted/engines.yaml``."""
    return files.load_bundled(Engines, FOLDER, FILE.removesuffix(".yaml"))


def architecture_of(gpu: str | GPUSpec) -> str:
    """The first word of a device's architecture, in lower case. For workstation and desktop boards of
    Blackwell it is `SM120`, because their kernels differ from those of Blackwell's data-centre devices.
    """
    architecture = (load_gpu(gpu) if isinstance(gpu, str) else gpu).architecture
    return SM120 if architecture.startswith(WORKSTATION) else architecture.split()[0].lower()


def borrowed_scopes(gpu: GPUSpec, kernels_gpu: str) -> tuple[str, ...]:
    """The scopes of corrections for a device whose kernels were measured on another device. They are its
    architecture, if it differs, and ``gddr`` for a board with GDDR memory.

    Boards with GDDR reach a larger share of their bandwidth, and have higher clocks.
    """
    own = architecture_of(gpu)
    scopes = () if own == architecture_of(kernels_gpu) else (own,)
    if gpu.memory_type.startswith("GDDR") and gpu.name != kernels_gpu:
        return (*scopes, GDDR)
    return scopes


@cache
def release(version: str) -> tuple[int, ...]:
    """A sort key for versions: 1.2.0rc0 < 1.2.0rc6 < 1.2.0, and b9999 < b10000. The result is empty for other
    text.
    """
    if build := BUILD.fullmatch(version):
        return (int(build[1]),)
    if not (matched := VERSION.search(version)):
        return ()
    major, minor, patch, candidate = matched.groups()
    return int(major), int(minor), int(patch or 0), int(candidate) if candidate else _NO_CANDIDATE


def since(table: dict[str, Fact], version: str) -> Fact:
    """The entry that applies to a version, from a table by first version. An empty version means the
    newest.
    """
    known = sorted(table, key=release)
    if not version:
        return table[known[-1]]
    return table[max((v for v in known if release(v) <= release(version)), key=release, default=known[0])]


def part_of(fit: StatedFit, chosen: dict[str, str]) -> StatedFit:
    """The part of a fit that belongs to the constants at the given places. Its parameters are the names of
    these constants.
    """
    names = {place: name for name, place in chosen.items()}
    kept = [i for i, place in enumerate(fit.parameters) if place in names]
    rows = [[fit.correlation[i][j] for j in kept if j <= i] for i in kept]
    return StatedFit(
        parameters=tuple(names[fit.parameters[i]] for i in kept), correlation=tuple(map(tuple, rows))
    )
