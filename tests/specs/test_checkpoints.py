"""Choice of the listed checkpoint whose weights have the most similar size, among made-up checkpoints."""

import pytest

from perfmodel.specs import load_gpu
from perfmodel.specs.models import checkpoints
from perfmodel.specs.models.checkpoint_rows import Checkpoint

MODEL = "mistralai/Mistral-Nemo-Instruct-2407"


@pytest.fixture(autouse=True)
def _made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """One checkpoint with 0.5195 bytes per weight and one with 1 byte per weight."""
    rows = tuple(
        Checkpoint(f"someone/nemo-{weights}", "mistral-nemo-12b", weights, "bf16", "made up")
        for weights in ("awq-g128", "fp8")
    )
    monkeypatch.setattr(checkpoints, "listed_checkpoints", lambda: rows)


@pytest.mark.parametrize(
    ("weights", "near"),
    [
        ("int4", "awq-g128"),
        ("int4-g32", "awq-g128"),  # 0.625 bytes
        ("q5_k", "awq-g128"),  # 0.6875 bytes, 1.32 times as many
        ("q6_k", "fp8"),  # 0.82 bytes, 1.22 times fewer
        ("int8", "fp8"),
        ("bf16", None),  # twice as many as the largest
    ],
)
def test_sizes_up_to_a_third_apart_are_near(weights: str, near: str | None) -> None:
    found = checkpoints.nearest(MODEL, weights, load_gpu("h100-sxm"))
    assert (found and found.weights) == near


def test_another_model_has_no_checkpoint_here() -> None:
    assert checkpoints.nearest("google/gemma-3-27b-it", "fp8", load_gpu("h100-sxm")) is None
