"""Tiny models and ragged prompts for the decoder's tests; all of them need torch."""

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

from perfmodel.specs.model import ModelSpec
from tests.validate.tiny_spec import tiny_spec

if TYPE_CHECKING:
    from perfmodel.validate.decoder.model import Model

collect_ignore_glob = [] if find_spec("torch") else ["decoder/test_*.py"]


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def make_spec() -> Callable[..., ModelSpec]:
    return tiny_spec


@pytest.fixture(scope="session")
def make_model(make_spec: Callable[..., ModelSpec]) -> "Callable[..., Model]":
    """A tiny model with random weights, large enough that its choices vary; float64 unless said otherwise."""
    import torch

    from perfmodel.validate.decoder.weights import RandomWeights, build

    def make(seed: int = 0, dtype: torch.dtype = torch.float64, deviation: float = 0.3, **changes: Any) -> "Model":
        return build(make_spec(**changes), RandomWeights(seed, torch.device("cpu"), dtype, deviation))

    return make


@pytest.fixture(scope="session")
def target(make_model: "Callable[..., Model]") -> "Model":
    return make_model()


@pytest.fixture(scope="session")
def small(make_model: "Callable[..., Model]") -> "Model":
    """A separate draft: the target's first layer, so that it is right now and then."""
    return make_model(num_hidden_layers=1)


@pytest.fixture(scope="session")
def prompts() -> list[list[int]]:
    """Ragged on purpose: longer and shorter than every budget, and one token."""
    import torch

    generator = torch.Generator().manual_seed(5)
    return [torch.randint(61, (n,), generator=generator).tolist() for n in (70, 1, 33, 50)]
