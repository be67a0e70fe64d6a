"""Choice of a listed checkpoint by format, size and device, among made-up checkpoints."""

from collections.abc import Callable

import pytest

from perfmodel.specs import load_gpu
from perfmodel.specs.models import checkpoints
from perfmodel.specs.models.checkpoint_rows import Checkpoint

MODEL = "mistralai/Mistral-Nemo-Instruct-2407"


List = Callable[..., None]


def row(name: str, weights: str, kv_dtype: str = "bf16") -> Checkpoint:
    return Checkpoint(name, "mistral-nemo-12b", weights, kv_dtype, "made up")


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> List:
    """Replaces the listed checkpoints."""
    return lambda *rows: monkeypatch.setattr(checkpoints, "listed_checkpoints", lambda: rows)


@pytest.fixture(autouse=True)
def _made_up(listed: List) -> None:
    """One checkpoint with 0.5195 bytes per weight and one with 1 byte per weight."""
    listed(row("someone/nemo-awq", "awq-g128"), row("someone/nemo-fp8", "fp8"))


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


def test_six_bits_are_not_near_four(listed: List) -> None:
    listed(row("someone/nemo-awq", "awq-g128"))
    assert checkpoints.nearest(MODEL, "q6_k", load_gpu("h100-sxm")) is None


def test_groups_of_32_weights_have_one_size_with_and_without_zeros(listed: List) -> None:
    listed(row("someone/nemo", "int4-g32-sym"))
    assert checkpoints.checkpoint(MODEL, "int4-g32", load_gpu("h100-sxm")) is not None


@pytest.mark.parametrize("release", ["Instruct", "Thinking"])
def test_a_thinking_model_has_the_checkpoints_of_thinking_models(listed: List, release: str) -> None:
    names = [f"someone/Qwen3-30B-A3B-{each}-2507-FP8" for each in ("Instruct", "Thinking")]
    listed(*(Checkpoint(name, "qwen3-30b-a3b-2507", "fp8", "bf16", "made up") for name in names))
    found = checkpoints.checkpoint(f"Qwen/Qwen3-30B-A3B-{release}-2507", "fp8", load_gpu("h100-sxm"))
    assert found is not None
    assert release in found.checkpoint


def test_another_model_has_no_checkpoint_here() -> None:
    assert checkpoints.nearest("google/gemma-3-27b-it", "fp8", load_gpu("h100-sxm")) is None


def test_the_order_of_choice(listed: List) -> None:
    """The best checkpoint is taken away again and again."""
    rows = [
        row("same-format", "int4-g128"),
        row("same-format-fp8-cache", "int4-g128", "fp8"),
        row("same-size", "awq-g128"),
        row("same-size-fp8-cache", "awq-g128", "fp8"),
        row("same-main-format", "bf16,mlp=int4-g128"),
        row("same-main-size", "bf16,mlp=awq-g128"),
        row("another-size", "fp8"),
    ]
    best = []
    while True:
        listed(*reversed(rows))
        found = checkpoints.checkpoint(MODEL, "int4-g128", load_gpu("h100-sxm"))
        if found is None:
            break
        best.append(found.checkpoint)
        rows.remove(found)
    assert best == [
        "same-format",
        "same-format-fp8-cache",
        "same-size",
        "same-size-fp8-cache",
        "same-main-format",
        "same-main-size",
    ]


@pytest.mark.parametrize(
    ("weights", "main"),
    [
        ("fp8", "fp8"),
        ("bf16,attention=fp8", "bf16"),
        ("bf16,mlp=fp8", "fp8"),
        ("bf16,mlp=fp8,experts=nvfp4", "nvfp4"),
        ("fp8,mlp=nvfp4-wo,lm_head=bf16", "nvfp4"),
    ],
)
def test_the_main_format_is_that_of_the_experts_or_mlps(weights: str, main: str) -> None:
    assert checkpoints.main_format(weights) == main


@pytest.mark.parametrize(
    ("owner", "weights", "gpus"),
    [
        ("nvidia", "fp8", ["h100-sxm"]),
        ("nvidia", "bf16,mlp=fp8-block", ["h100-sxm"]),
        ("nvidia", "nvfp4", ["h100-sxm", "a100"]),
        ("someone", "fp8", ["h100-sxm", "a100", "mi300x"]),
        ("someone", "nvfp4", ["h100-sxm", "a100", "mi300x"]),
    ],
)
def test_devices_that_load_the_checkpoints_of_an_owner(
    listed: List, owner: str, weights: str, gpus: list[str]
) -> None:
    """An A100 has no FP8 units, an MI300X has; it is not NVIDIA's."""
    listed(row(f"{owner}/nemo", weights))
    loading = [
        gpu
        for gpu in ("h100-sxm", "a100", "mi300x")
        if checkpoints.checkpoint(MODEL, weights, load_gpu(gpu)) is not None
    ]
    assert loading == gpus
    assert all(checkpoints.nearest(MODEL, weights, load_gpu(gpu)) for gpu in gpus)


def test_a_checkpoint_that_the_engine_does_not_load_is_no_choice(listed: List) -> None:
    listed(row("someone/nemo", "fp8,mlp=nvfp4-wo"))
    asked = []

    def reads(repository: str, weights: str) -> bool:
        asked.append((repository, weights))
        return False

    assert checkpoints.checkpoint(MODEL, "nvfp4", load_gpu("h100-sxm"), reads) is None
    assert asked == [("someone/nemo", "nvfp4")]
