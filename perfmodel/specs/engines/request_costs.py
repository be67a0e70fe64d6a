"""Costs of a request on a serving engine outside the passes of its model, from
``hardware/fitted/requests.yaml``.
"""

import datetime
from functools import cache
from typing import Annotated

from msgspec import Meta

from perfmodel.specs.boundary import files
from perfmodel.specs.boundary.frozen import Frozen, Text
from perfmodel.specs.calibrations.fit_errors import Scatter


class EngineRequests(Frozen):
    """Request costs of one engine; by default none.

    - request_s: time until a request is scheduled.
    - prompt_token_s: time per prompt token.
    - prompt_factor: time of the routed experts of a prompt, divided by that of their kernels measured alone.
    - prompt_kernel_s: additional time per kernel of a pass that reads prompts, because kernels are launched
      one by one and not as a graph.
    - passes_ahead: number of passes that the device already has before the one that takes a new request (0
      with a draft that has its own model).
    - reserved_bytes: memory for activations and graphs that weights and caches cannot use.
    - prompts_alone: whether prompts have passes of their own, as by default in SGLang.
    """

    request_s: Annotated[float, Meta(ge=0, lt=10)] = 0.0
    prompt_token_s: Annotated[float, Meta(ge=0, lt=1e-3)] = 0.0
    prompt_factor: Annotated[float, Meta(gt=0, lt=10)] = 1.0
    prompt_kernel_s: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    passes_ahead: Annotated[float, Meta(ge=0, le=2)] = 0.0
    reserved_bytes: Annotated[float, Meta(ge=0, lt=1e12)] = 0.0
    prompts_alone: bool = False


class Spread(Frozen):
    """Standard deviation of acceptance between the requests of a model, from published runs."""

    value: Annotated[float, Meta(ge=0, le=0.5)]
    source: Text


class Requests(Frozen):
    """``hardware/fitted/requests.yaml``.

    - common: costs of an engine without fitted runs; the fitted costs of all engines are shrunk towards it.
    - engines: the costs by the engine's name, or by its name and the architecture of its devices.
    - errors: errors of a mean TPOT, by engine and over all runs (`tpot`).
    - ttft_errors: errors of a mean TTFT, by engine and for engines without fitted runs (`all`).
    - acceptance_std: standard deviation of acceptance, by model.
    """

    fitted_on: tuple[str, ...]
    date: datetime.date
    common: EngineRequests
    engines: dict[str, EngineRequests]
    errors: dict[str, Scatter]
    ttft_errors: dict[str, Scatter]
    acceptance_std: dict[str, Spread]

    def place(self, engine: str, architecture: str) -> str:
        """Key of an engine on devices of an architecture."""
        own = f"{engine}.{architecture}"
        return own if own in self.engines else engine

    def has_rows(self, engine: str | None) -> bool:
        """Whether served runs of an engine were fitted."""
        return engine in {place.partition(".")[0] for place in self.engines}

    def of(self, engine: str | None, architecture: str) -> EngineRequests:
        """The costs of a request on an engine and an architecture: the common costs if the engine has no
        fitted runs, and no costs if `engine` is None.
        """
        if engine is None:
            return EngineRequests()
        return self.engines.get(self.place(engine, architecture), self.common)

    def error(self, engine: str | None) -> Scatter:
        """The part of the error of a mean TPOT that comes from the request costs of an engine."""
        return self.errors.get(engine or "", self.errors["tpot"])

    def ttft_error(self, engine: str | None) -> Scatter:
        """The whole error of a mean TTFT on an engine."""
        return self.ttft_errors.get(engine or "", self.ttft_errors["all"])


@cache
def request_constants() -> Requests:
    """The contents of the bundled file."""
    return files.load_bundled(Requests, "fitted", "requests")
