"""Tiny models and ragged prompts for the decoder's tests."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from perfmodel.validate.decoder import Generation, Model, RandomWeights, Request, build, make_decoder
from tests.validate.tiny_model import tiny_spec


@pytest.fixture(scope="session", autouse=True)
def _one_thread_and_a_known_commit() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PERFMODEL_COMMIT", "0123456789abcdef")
        yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def make_model() -> Callable[..., Model]:
    """A tiny model with random weights, large enough that its choices vary; float64 unless said otherwise."""

    def make(
        seed: int = 0,
        dtype: torch.dtype = torch.float64,
        deviation: float = 0.3,
        fp8: bool = False,
        **changes: Any,
    ) -> Model:
        return build(
            tiny_spec(**changes), RandomWeights(seed, torch.device("cpu"), dtype, deviation), fp8=fp8
        )

    return make


@pytest.fixture(scope="session")
def target(make_model: Callable[..., Model]) -> Model:
    return make_model()


@pytest.fixture(scope="session")
def small(make_model: Callable[..., Model]) -> Model:
    """A separate draft: the target's first layer, so that it is right now and then."""
    return make_model(num_hidden_layers=1)


@pytest.fixture(scope="session")
def prompts() -> list[list[int]]:
    """Ragged on purpose: longer and shorter than every budget, and one token."""
    generator = torch.Generator().manual_seed(5)
    return [torch.randint(61, (n,), generator=generator).tolist() for n in (70, 1, 33, 50)]


@pytest.fixture(scope="session")
def plain(target: Model, prompts: list[list[int]]) -> Generation:
    """What 40 steps of plain decoding make of the prompts."""
    return make_decoder(target, Request(len(prompts), 70, 40)).generate(prompts, 40)
