"""Shared test set-up: tests marked `cuda` are skipped where torch sees no CUDA device."""

import os
from importlib.util import find_spec

import pytest
from hypothesis import settings

settings.register_profile("untimed", deadline=None)  # a slow machine is not a failing test
settings.load_profile("untimed")
os.environ.pop("COLUMNS", None)  # processes of pytest-xdist have it: output would be wrapped to that width


def _has_cuda() -> bool:
    if find_spec("torch") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())


@pytest.fixture(autouse=True)
def unwrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is printed where no terminal is has whole lines: words are looked for in them."""
    from perfmodel.cli import output

    monkeypatch.setattr(output, "PIPED", 10_000)
    monkeypatch.setattr(output, "WIDTH", 10_000)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    marked = [item for item in items if item.get_closest_marker("cuda")]
    if marked and not _has_cuda():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))
