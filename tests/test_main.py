"""What a process of the command line sets up before it loads anything."""

import os

import pytest

from perfmodel import __main__


def test_the_process_is_set_up_before_anything_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread for linear algebra, but where the decoder is run and timed."""
    thresholds: list[int] = []
    monkeypatch.setattr("gc.set_threshold", thresholds.append)
    monkeypatch.setattr("perfmodel.cli.main", lambda: None)
    for words, threads in (
        ([], "1"),
        (["run"], "1"),
        (["validate", "run"], None),
        (["validate", "accuracy"], "1"),
    ):
        monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
        monkeypatch.setattr("sys.argv", ["perfmodel", *words])
        __main__.main()
        assert os.environ.get("OPENBLAS_NUM_THREADS") == threads
    assert min(thresholds) >= 50_000, "the garbage collector comes seldom"
