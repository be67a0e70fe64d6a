"""Computes the constants of an engine on a device from the parameters that are fitted."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from perfmodel.specs import (
    ONLY,
    VERSION_SEPARATOR,
    Calibration,
    Constant,
    GPUSpec,
    architecture_of,
    borrowed_scopes,
    calibration_of,
    load_gpu,
    read_kernels,
    release,
)
from perfmodel.validate.solving import Values, grouped
from perfmodel.validate.studies.parameters import PlacedConstant
from perfmodel.validate.studies.public_parameters import PUBLIC

GRAPH_TOKENS = (8, 512)
"""Step and largest size of the captured CUDA graphs, in tokens. By default, vLLM captures graphs of 1, 2 and
4 tokens and of multiples of 8 tokens up to 512 (config/compilation.py).
"""


@dataclass(frozen=True)
class FittedConstants:
    """The constants of an engine on a device as functions of the fitted parameters.

    - kernels: the kernel constants of the device.
    - chosen: name of a constant -> the parameter that determines it.
    - drifts: factors for the device and the version. They are applied last.
    """

    kernels: Calibration
    chosen: Mapping[str, PlacedConstant]
    drifts: tuple[PlacedConstant, ...]

    @classmethod
    def of(
        cls,
        hardware: str,
        engine: str,
        version: str,
        parameters: Sequence[PlacedConstant],
        kernels_of: str | None = None,
    ) -> "FittedConstants":
        """Selects the parameters that apply to an engine, a version and a device.

        - kernels_of: another device whose kernel constants replace the device's own. In this case, the
          constants of public runs are not used.
        """
        parameters = parameters if kernels_of else (*parameters, *PUBLIC)
        kernels = load_kernels(calibration_of(load_gpu(kernels_of or hardware), engine).name)
        kernels = kernels.replace(version=version)
        gpu = load_gpu(hardware)
        of_kernels = architecture_of(kernels.gpu or hardware)
        by_scope = grouped(parameters, lambda p: p.scope)
        chosen: dict[str, PlacedConstant] = {}
        factors: dict[str, PlacedConstant] = {}
        for scope in ("all", of_kernels, engine, f"{engine}.{of_kernels}"):
            chosen |= {p.name: p for p in by_scope.get(scope, ())}
        for scope in _device_scopes(engine, gpu, kernels.gpu or gpu.name):
            for p in by_scope.get(scope, ()):
                if p.times:
                    factors[p.place] = p
                else:
                    chosen[p.name] = p
        architectures = (of_kernels, architecture_of(gpu))
        drifts = _drifts(engine, version, architectures, parameters)
        return cls(kernels, chosen, (*factors.values(), *drifts))

    @property
    def parameters(self) -> tuple[PlacedConstant, ...]:
        """All parameters of these constants."""
        return (*self.chosen.values(), *self.drifts)

    def known(self, values: Values) -> Values:
        """Place -> value of each of these parameters. A parameter without a value gets its expected value."""
        return {p.place: values.get(p.place, p.expected) for p in self.parameters}

    def calibration(self, values: Values) -> Calibration:
        """The calibration with these values. A parameter without a value has its expected value.

        - values: place of a parameter -> value.
        """
        values = self.known(values)
        update: dict[str, Constant] = {}
        for name, parameter in self.chosen.items():
            scale = getattr(self.kernels, name).value if parameter.times else 1.0
            update[name] = Constant(value=scale * values[parameter.place], source="being fitted")
        for p in self.drifts:
            base = update.get(p.name, getattr(self.kernels, p.name)).value
            update[p.name] = Constant(value=base * values[p.place], source="being fitted")
        return self.kernels.replace(**update)


def _device_scopes(engine: str, gpu: GPUSpec, kernels_of: str) -> Iterator[str]:
    """The scopes of a device. A later scope overrides an earlier one. The borrowed scopes precede the
    device's own, and each scope for all engines precedes the same scope for this engine.

    - kernels_of: the device whose kernel constants are used.
    """
    for device in (*borrowed_scopes(gpu, kernels_of), gpu.name):
        yield device
        yield f"{engine}.{device}"


class _Drift(NamedTuple):
    """A factor that applies from a version on.

    - since: the first version.
    - architecture: the only GPU architecture to which the factor applies; empty for all.
    """

    since: str
    architecture: str
    factor: PlacedConstant

    @classmethod
    def of(cls, factor: PlacedConstant) -> "_Drift":
        """Reads the version and the architecture from the factor's scope (``ENGINE@VERSION`` or
        ``ENGINE@VERSION/ARCHITECTURE``).
        """
        _, _, since_and_architecture = factor.scope.partition(VERSION_SEPARATOR)
        since, _, architecture = since_and_architecture.partition(ONLY)
        return cls(since, architecture, factor)


def _drifts(
    engine: str, version: str, architectures: Collection[str], parameters: Sequence[PlacedConstant]
) -> list[PlacedConstant]:
    """The factors that apply to a version of an engine. For each constant, it is the newest factor that is
    not newer than the version. A factor for one architecture applies in addition to a factor for all.
    """
    of_engine = [_Drift.of(p) for p in parameters if p.scope.startswith(engine + VERSION_SEPARATOR)]
    newest = {}
    for drift in sorted(of_engine, key=lambda drift: release(drift.since)):
        if release(drift.since) <= release(version) and drift.architecture in ("", *architectures):
            newest[drift.factor.name, drift.architecture] = drift.factor
    return list(newest.values())


def load_kernels(name: str) -> Calibration:
    """A bundled calibration of the kind ``kernels``. It does not include the constants of its engine. Its
    CUDA graphs are those of `GRAPH_TOKENS`.
    """
    return read_kernels(name).replace(graph_tokens=GRAPH_TOKENS)
