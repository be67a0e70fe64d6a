"""A mix of request classes from a file: the share, lengths and SLO of each."""

from pathlib import Path
from typing import Annotated

from msgspec import Meta

from perfmodel.specs.boundary import files
from perfmodel.specs.boundary.frozen import Frozen

Milliseconds = Annotated[float, Meta(gt=0, lt=1e9)]
Tokens = Annotated[int, Meta(ge=1, le=2**30)]
Std = Annotated[float, Meta(ge=0, le=2**30)]


class Slo(Frozen):
    """Limits in milliseconds."""

    ttft: Milliseconds | None = None
    tpot: Milliseconds | None = None
    e2e: Milliseconds | None = None


class RequestClass(Frozen):
    """One class of requests.

    - share: weight among all requests.
    - alpha: acceptance; None means the acceptance of the question.
    """

    share: Annotated[float, Meta(gt=0, lt=1e9)]
    input_len: Tokens
    output_len: Annotated[int, Meta(ge=2, le=2**30)]
    input_std: Std = 0.0
    output_std: Std = 0.0
    alpha: Annotated[float, Meta(ge=0, lt=1)] | None = None
    slo: Slo = Slo()


class Mix(Frozen):
    """The classes by name."""

    classes: Annotated[dict[str, RequestClass], Meta(min_length=1, max_length=1000)]


def read_mix(path: str) -> dict[str, RequestClass]:
    """The classes of a YAML or JSON file. Raises InputError."""
    return files.parse(Mix, files.read_mapping(Path(path)), path).classes
