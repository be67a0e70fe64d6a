"""What a request costs on a serving engine beside the passes of its model, from
``hardware/requests.yaml``.
"""

import datetime
from functools import cache
from typing import Annotated

from msgspec import Meta

from perfmodel.specs.boundary import files
from perfmodel.specs.boundary.frozen import Frozen, Text


class EngineRequests(Frozen):
    """One engine, by default nothing. request_s, prompt_token_s: until a request is scheduled, and per prompt
    token.

    prompt_factor: time of prompts in a pass over what the roofline says. prompt_layer_s: further time, for
    each layer, of a pass that reads prompts: its kernels are launched one by one, not as a graph.
    passes_ahead: passes that are handed to the device before the one that takes a new request; the second:
    with a draft that is a model of its own. reserved_bytes: of a device's memory, for activations and graphs,
    that neither weights nor caches may take.
    """

    request_s: Annotated[float, Meta(ge=0, lt=10)] = 0.0
    prompt_token_s: Annotated[float, Meta(ge=0, lt=1e-3)] = 0.0
    prompt_factor: Annotated[float, Meta(gt=0, lt=10)] = 1.0
    prompt_layer_s: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    passes_ahead: Annotated[float, Meta(ge=0, le=2)] = 0.0
    passes_ahead_model_draft: Annotated[float, Meta(ge=0, le=2)] = 0.0
    reserved_bytes: Annotated[float, Meta(ge=0, lt=1e12)] = 0.0


class TrafficError(Frozen):
    """How far the traffic model is off by itself, step times being known: rms of the logarithm, held out."""

    log_rms: Annotated[float, Meta(ge=0, lt=2)]
    rows: Annotated[int, Meta(ge=1)]
    source: Text


class Spread(Frozen):
    """Standard deviation of acceptance between the requests of a model, as published runs show it."""

    value: Annotated[float, Meta(ge=0, le=0.5)]
    source: Text


class Requests(Frozen):
    """``hardware/requests.yaml``. common: of an engine without rows of its own, which the others are shrunk
    to. acceptance_std: by model.
    """

    fitted_on: tuple[str, ...]
    date: datetime.date
    common: EngineRequests
    engines: dict[str, EngineRequests]
    errors: dict[str, TrafficError]
    acceptance_std: dict[str, Spread]

    def of(self, engine: str | None) -> EngineRequests:
        """Those of an engine; nothing for times that no engine made."""
        return EngineRequests() if engine is None else self.engines.get(engine, self.common)


@cache
def request_constants() -> Requests:
    """The bundled file."""
    return files.load_bundled(Requests, "", "requests")
