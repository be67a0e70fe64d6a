"""What serving engines cost beyond their kernels, from ``hardware/engines.yaml``.

A calibration of kind ``kernels`` states what public kernel tables say of one device under one engine. The
engine's own constants are declared once for all devices: for every engine, by GPU architecture, by engine,
and by engine and architecture, the later before the earlier; what one board alone is off by stands beside the
architectures, by its name. Each states a constant of the calibration or multiplies the kernels' value. What
moved with an engine's versions is a factor on that, from a version on.
"""

import datetime
import re
from functools import cache
from typing import Annotated

from msgspec import Meta, field

from perfmodel.specs.boundary import files
from perfmodel.specs.boundary.frozen import FINITE, Frozen, Text
from perfmodel.specs.calibrations.fit_errors import Quantity, Relation, Scatter, StatedFit
from perfmodel.specs.devices.gpu import GPUSpec, load_gpu

FILE = "engines.yaml"
VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?(?:rc(\d+))?")
BUILD = re.compile(r"b(\d{1,9})")
"""llama.cpp counts its builds: b10451."""
DRIFT = "@"
"""Between an engine and a version of it, in a place and in ``--engine vllm@0.22``."""
GDDR = "gddr"
ONLY = "/"
"""Between a version and the architecture that a drift is of alone."""
_NO_CANDIDATE = 10**6
"""A release comes after all candidates for it."""
Number = Annotated[float, Meta(ge=0, le=FINITE)]


class Stated(Frozen):
    """One fitted number. times: it multiplies what the kernels' file states."""

    value: Number
    stderr: Number
    times: bool = False
    source: Text


Constants = dict[str, Stated]


class Engine(Frozen):
    """One engine. measured, speculating: device -> models whose steps, or iterations, were fitted.

    versions: those of the rows, the newest last. drifts: version -> factors on constants from it on, until a
    later one states the same; ``VERSION/ARCHITECTURE`` for that architecture alone. drafts, longest_tokens,
    widest_tokens: kinds of draft, the longest context, and the most tokens that were verified at once, of the
    iterations. errors: of predictions, by what was held out.
    """

    title: str
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
    """``hardware/engines.yaml``. Parameters of `fit`, those of an iteration, are places in it:
    ``all.drafted_token_s``.

    acceptance: how far tokens per iteration are off, by position held out, for each e-fold of drafted tokens
    that their constant acceptance is carried beyond where it was measured. unseen_draft: how far ratios are
    off with all rows of a kind of draft held out. unseen_context: the same of long contexts, for each e-fold
    beyond the longest. unseen_width: the same of wide verifications, for each e-fold beyond the widest.
    """

    fitted_on: tuple[str, ...]
    acceptance: Scatter
    unseen_draft: Scatter
    unseen_context: Scatter
    unseen_width: Scatter
    date: datetime.date
    graph_tokens: tuple[int, int] | None = None
    constants: Constants
    architectures: dict[str, Constants]
    engines: dict[str, Engine]
    fit: StatedFit

    def places(self) -> dict[str, Stated]:
        """Every constant by its place."""
        return {
            f"{scope}.{name}": s
            for scope, constants in self._scopes().items()
            for name, s in constants.items()
        }

    def _scopes(self) -> dict[str, Constants]:
        scopes = {"all": self.constants, **self.architectures}
        for word, engine in self.engines.items():
            scopes[word] = engine.constants
            scopes |= {f"{word}{DRIFT}{since}": constants for since, constants in engine.drifts.items()}
            scopes |= {f"{word}.{name}": constants for name, constants in engine.architectures.items()}
        return scopes

    def drifted(self, engine: str, version: str, only: str = "") -> dict[str, Stated]:
        """Name of each constant that moved with an engine's versions -> its factor in this one.

        only: of the drifts of one architecture alone, stated as ``VERSION/ARCHITECTURE``; else of all others.
        """
        found: dict[str, Stated] = {}
        for since, constants in sorted(
            self.engines[engine].drifts.items(), key=lambda drift: release(drift[0])
        ):
            if release(since) <= release(version) and since.partition(ONLY)[2] == only:
                found |= constants
        return found

    def of_device(self, engine: str, version: str, other: tuple[str, ...], board: str) -> list[Constants]:
        """What is put onto an engine's constants, in order: of an `other` architecture than that of its
        kernels, of a board, and the drifts of the other architecture alone. `times` multiplies.
        """
        layers = (
            constants.get(s, {})
            for s in (*other, board)
            for constants in (self.architectures, self.engines[engine].architectures)
        )
        return [*layers, *(self.drifted(engine, version, own) for own in other)]

    def chosen(self, engine: str, architecture: str) -> dict[str, str]:
        """Name of each constant that this engine has on this architecture -> its place."""
        order = ("all", architecture, engine, f"{engine}.{architecture}")
        scopes = self._scopes()
        return {name: f"{scope}.{name}" for scope in order for name in scopes.get(scope, ())}


@cache
def engines() -> Engines:
    """The bundled file."""
    return files.load_bundled(Engines, "", FILE.removesuffix(".yaml"))


def architecture_of(gpu: str | GPUSpec) -> str:
    """First word of a device's architecture, in lower case."""
    return (load_gpu(gpu) if isinstance(gpu, str) else gpu).architecture.split()[0].lower()


def borrowed_scopes(gpu: GPUSpec, kernels_gpu: str) -> tuple[str, ...]:
    """Scopes of a device whose kernels were measured on another: its architecture where that differs, and
    ``gddr`` for a board with such memory, which loads a larger share of its bandwidth and has higher clocks.
    """
    own = architecture_of(gpu)
    scopes = () if own == architecture_of(kernels_gpu) else (own,)
    return (*scopes, GDDR) if gpu.memory_type.startswith("GDDR") and gpu.name != kernels_gpu else scopes


def release(version: str) -> tuple[int, ...]:
    """Sorts versions: 1.2.0rc0 before 1.2.0rc6 and that before 1.2.0, b9999 before b10000. Empty for text
    that names none.
    """
    if build := BUILD.fullmatch(version):
        return (int(build[1]),)
    found = VERSION.search(version)
    if not found:
        return ()
    major, minor, patch, candidate = found.groups()
    return int(major), int(minor), int(patch or 0), int(candidate) if candidate else _NO_CANDIDATE


def part_of(fit: StatedFit, chosen: dict[str, str]) -> StatedFit:
    """The part of the covariance that belongs to these places, under the constants' own names."""
    members = [
        (i, name) for name, place in chosen.items() for i, p in enumerate(fit.parameters) if p == place
    ]
    members.sort()
    rows = tuple(
        tuple(fit.correlation[i][j] for j, _ in members[: k + 1]) for k, (i, _) in enumerate(members)
    )
    return StatedFit(parameters=tuple(name for _, name in members), correlation=rows)
