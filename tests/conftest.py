"""Shared test set-up: tests marked `cuda` are skipped where torch sees no CUDA device."""

import gc
import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from tests.explorer.headless import Browser

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


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.get_closest_marker("long") is None)
    marked = [item for item in items if item.get_closest_marker("cuda")]
    if marked and not _has_cuda():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


def pytest_collection_finish() -> None:
    """What was imported stays: the garbage collector, which each timed run calls, skips it, and it comes less
    often.
    """
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)


@pytest.fixture(scope="module", autouse=True)
def _young_heap() -> None:
    """What earlier modules remember is not searched for garbage again at each timed run."""
    gc.freeze()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Browser"]:
    """A headless browser; the test is skipped where there is none."""
    from tests.explorer.headless import BROWSERS, Browser

    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip(f"no browser: none of {', '.join(BROWSERS)} on PATH (Debian: apt-get install chromium)")
    opened = Browser(program, tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()
