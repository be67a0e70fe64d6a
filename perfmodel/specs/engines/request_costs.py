"""The costs of a request on a serving engine that are not part of the model's passes. The costs are read from
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
    """The request costs of one engine. By default, there are none.

    - request_s: seconds until a request is scheduled.
    - prompt_token_s: seconds per prompt token.
    - prompt_factor: time of the routed experts in a prompt, divided by the time of their kernels in a
      separate measurement.
    - prompt_kernel_s: additional seconds per kernel of a pass that reads prompts. Such kernels are launched
      one by one and not as a CUDA graph.
    - passes_ahead: number of passes that are already queued on the device before the pass that reads a new
      request. It is 0 with a draft that has its own model.
    - reserved_bytes: memory for activations and CUDA graphs, which weights and caches cannot use.
    - prompts_alone: whether prompts run in separate passes, as they do by default in SGLang.
    """

    request_s: Annotated[float, Meta(ge=0, lt=10)] = 0.0
    prompt_token_s: Annotated[float, Meta(ge=0, lt=1e-3)] = 0.0
    prompt_factor: Annotated[float, Meta(gt=0, lt=10)] = 1.0
    prompt_kernel_s: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    passes_ahead: Annotated[float, Meta(ge=0, le=2)] = 0.0
    reserved_bytes: Annotated[float, Meta(ge=0, lt=1e12)] = 0.0
    prompts_alone: bool = False


class Spread(Frozen):
    """The standard deviation of acceptance between the requests to a model, from published runs."""

    value: Annotated[float, Meta(ge=0, le=0.5)]
    source: Text


class Requests(Frozen):
    """The contents of ``hardware/fitted/requests.yaml``.

    - common: costs of an engine without fitted runs. The fitted costs of all engines are shrunk towards
      these.
    - engines: the costs of each engine. A key is the engine's name, or its name and the architecture of the
      devices.
    - errors: errors of the mean TPOT, by engine. The key `tpot` has the error over all runs.
    - ttft_errors: errors of the mean TTFT, by engine. The key `all` has the error for engines without fitted
      runs.
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
        """The key in `engines` that applies to an engine on an architecture."""
        own = f"{engine}.{architecture}"
        return own if own in self.engines else engine

    def has_rows(self, engine: str | None) -> bool:
        """Whether serving runs of an engine were fitted."""
        return engine in {place.partition(".")[0] for place in self.engines}

    def of(self, engine: str | None, architecture: str) -> EngineRequests:
        """The costs of a request on an engine and an architecture. If the engine has no fitted runs, the
        common costs are returned. The costs are zero if `engine` is None.
        """
        if engine is None:
            return EngineRequests()
        return self.engines.get(self.place(engine, architecture), self.common)

    def error(self, engine: str | None) -> Scatter:
        """The error of the mean TPOT that is due to the request costs of an engine."""
        return self.errors.get(engine or "", self.errors["tpot"])

    def ttft_error(self, engine: str | None) -> Scatter:
        """The total error of the mean TTFT on an engine."""
        return self.ttft_errors.get(engine or "", self.ttft_errors["all"])


@cache
def request_constants() -> Requests:
    """The contents of the bundled file ``hardware/fitted/requests.yaml``."""
    return files.load_bundled(Requests, "fitted", "requests")
