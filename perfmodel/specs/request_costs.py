"""What a request costs on a serving engine beside the passes of its model, from ``hardware/requests.yaml``."""

import datetime
from functools import cache

from pydantic import Field

from perfmodel.specs import files
from perfmodel.specs.files import Frozen


class RequestConstant(Frozen):
    """One number, read off published rows by hand, and off which."""

    value: float = Field(ge=0, allow_inf_nan=False)
    source: str = Field(min_length=3)


class EngineRequests(Frozen):
    """One engine. request_s, prompt_token_s: from a request's arrival until it may be scheduled, and per prompt token.

    prompt_factor: time of a prompt in a pass over what the roofline says. passes_ahead: passes that are handed to the
    device before the one that takes a new request; the last: with a draft that is a model of its own.
    reserved_bytes: of a device's memory, for activations and graphs, that neither weights nor caches may take.
    """

    request_s: RequestConstant
    prompt_token_s: RequestConstant
    prompt_factor: RequestConstant
    passes_ahead: RequestConstant
    passes_ahead_model_draft: RequestConstant
    reserved_bytes: RequestConstant


class TrafficError(Frozen):
    """How far the traffic model is off by itself, step times being known: rms of the logarithm, in sample."""

    log_rms: float = Field(ge=0, lt=2)
    rows: int = Field(ge=1)
    source: str = Field(min_length=3)


class Requests(Frozen):
    """``hardware/requests.yaml``."""

    seen: tuple[str, ...]
    date: datetime.date
    engines: dict[str, EngineRequests]
    errors: dict[str, TrafficError]


@cache
def request_constants() -> Requests:
    """The bundled file."""
    return files.load_bundled(Requests, "", "requests")
