"""Reads a mix of request classes from a file. Each class has a share, lengths and an SLO."""

from pathlib import Path
from typing import Annotated

from msgspec import Meta

from perfmodel.specs.boundary import files
from perfmodel.specs.boundary.frozen import Frozen

Milliseconds = Annotated[float, Meta(gt=0, lt=1e9)]
Tokens = Annotated[int, Meta(ge=1, le=2**30)]
Std = Annotated[float, Meta(ge=0, le=2**30)]


class Slo(Frozen):
    """The latency limits (SLO) of a request class, in milliseconds."""

    ttft: Milliseconds | None = None
    tpot: Milliseconds | None = None
    e2e: Milliseconds | None = None


class RequestClass(Frozen):
    """One class of requests.

    - share: weight of the class among all requests.
    - alpha: acceptance of the class. None means the acceptance of the question.
    """

    share: Annotated[float, Meta(gt=0, lt=1e9)]
    input_len: Tokens
    output_len: Annotated[int, Meta(ge=2, le=2**30)]
    input_std: Std = 0.0
    output_std: Std = 0.0
    alpha: Annotated[float, Meta(ge=0, lt=1)] | None = None
    slo: Slo = Slo()


class Mix(Frozen):
    """The contents of a mix file: the request classes by name."""

    classes: Annotated[dict[str, RequestClass], Meta(min_length=1, max_length=1000)]


def read_mix(path: str) -> dict[str, RequestClass]:
    """Reads the request classes of a YAML or JSON file. Raises InputError if the file is wrong."""
    return files.parse(Mix, files.read_mapping(Path(path)), path).classes
