"""What a request costs on a serving engine beside the passes of its model, from ``hardware/requests.yaml``."""

import datetime
from functools import cache

from pydantic import Field

from perfmodel.specs import files
from perfmodel.specs.files import Frozen


class EngineRequests(Frozen):
    """One engine, by default nothing. request_s, prompt_token_s: until a request is scheduled, and per prompt token.

    prompt_factor: time of prompts in a pass over what the roofline says. passes_ahead: passes that are handed to the
    device before the one that takes a new request; the second: with a draft that is a model of its own.
    reserved_bytes: of a device's memory, for activations and graphs, that neither weights nor caches may take.
    """

    request_s: float = Field(default=0.0, ge=0, lt=10)
    prompt_token_s: float = Field(default=0.0, ge=0, lt=1e-3)
    prompt_factor: float = Field(default=1.0, gt=0, lt=10)
    passes_ahead: float = Field(default=0.0, ge=0, le=2)
    passes_ahead_model_draft: float = Field(default=0.0, ge=0, le=2)
    reserved_bytes: float = Field(default=0.0, ge=0, lt=1e12)


class TrafficError(Frozen):
    """How far the traffic model is off by itself, step times being known: rms of the logarithm, held out."""

    log_rms: float = Field(ge=0, lt=2)
    rows: int = Field(ge=1)
    source: str = Field(min_length=3)


class Requests(Frozen):
    """``hardware/requests.yaml``. common: of an engine without rows of its own, which the others are shrunk to."""

    fitted_on: tuple[str, ...]
    date: datetime.date
    common: EngineRequests
    engines: dict[str, EngineRequests]
    errors: dict[str, TrafficError]

    def of(self, engine: str | None) -> EngineRequests:
        """Those of an engine; nothing for times that no engine made."""
        return EngineRequests() if engine is None else self.engines.get(engine, self.common)


@cache
def request_constants() -> Requests:
    """The bundled file."""
    return files.load_bundled(Requests, "", "requests")
