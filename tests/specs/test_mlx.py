"""MLX: which engine and kernels answer for a Mac, what more rows cost, and the line of its server."""

import pytest

from perfmodel.answers.advice.advise import advise
from perfmodel.answers.point.whatif import whatif
from perfmodel.answers.question import Named, Query, resolve
from perfmodel.errors import InputError
from perfmodel.specs import serving_engines, weight_format
from tests.refusals import refused


@pytest.mark.parametrize(
    ("hardware", "question", "calibration"),
    [
        ("m4-pro", {"engine": "mlx"}, "apple-m4-pro-64gb.mlx"),
        ("m4-pro:48gb", {"engine": "mlx@0.32.1"}, "apple-m4-pro-64gb.mlx"),
        ("m4-pro", {"engine": "mlx@0.31.2"}, "apple-m4-pro-64gb.mlx-qmv"),
        ("m4-pro", {"engine": "mlx-dspark"}, "apple-m4-pro-64gb.mlx-dspark"),
        ("m4-pro", {"weights": "4bit"}, "apple-m4-pro-64gb.mlx"),
        ("m4-pro", {"model": "mlx-community/Qwen3-8B-8bit"}, "apple-m4-pro-64gb.mlx"),
        ("m4-pro", {}, "apple-m4-pro-64gb.llamacpp"),
        ("h100", {"model": "mlx-community/Qwen3-8B-8bit"}, "h100-sxm-80gb.vllm"),
    ],
)
def test_version_fork_and_weights_name_the_kernels(
    hardware: str, question: dict[str, str], calibration: str
) -> None:
    query = Query(**{"model": "qwen3-8b", "hardware": hardware, "batch": 1, "context": 1024} | question)  # type: ignore[arg-type]
    assert Named.of(query).calibration.name == calibration


def rows_cost(hardware: str, engine: str, weights: str, rows: int, model: str = "qwen3-32b") -> float:
    """Time of a pass over so many tokens of one sequence, in steps."""
    s = resolve(Query(model, hardware, 1, 1, gamma=0, engine=engine, weights=weights))
    return float(s.target_pass_s(1.0, 1.0, float(rows)) / s.target_pass_s(1.0, 1.0, 1.0))


@pytest.mark.parametrize(
    ("hardware", "engine", "weights", "measured"),
    [
        ("m4-pro", "mlx", "4bit", {2: 1.0, 4: 1.45, 8: 2.7}),
        ("m3-ultra", "mlx", "4bit", {2: 1.8, 4: 3.3, 8: 6.1}),
        ("m5-max", "mlx", "4bit", {3: 1.12, 5: 1.48, 8: 2.25}),
        ("m4-pro", "mlx-dspark", "4bit", {8: 1.4}),
        ("m4-pro", "mlx-dspark", "8bit", {8: 1.0}),
    ],
)
def test_more_rows_cost_what_the_kernels_of_the_chip_take(
    hardware: str, engine: str, weights: str, measured: dict[int, float]
) -> None:
    for rows, factor in measured.items():
        assert rows_cost(hardware, engine, weights, rows) == pytest.approx(factor, rel=0.15)


def test_old_releases_and_old_chips_read_the_weights_for_each_row() -> None:
    assert rows_cost("m4-pro", "mlx@0.31.2", "4bit", 4) > 2 * rows_cost("m4-pro", "mlx", "4bit", 4)
    for engine in ("mlx", "mlx@0.31.2", "mlx-dspark"):
        assert rows_cost("m1-max", engine, "4bit", 4) == pytest.approx(3.1, rel=0.1)
    assert rows_cost("m4-pro", "mlx", "4bit", 4, "qwen3-30b-a3b") > 2.0  # experts of each token are read


def test_a_draft_on_an_m1_does_not_pay() -> None:
    """mlx-dspark#38: 2.37 tokens of an 8-bit Qwen3.8-27B gain 0.91, the best of all lengths."""
    at = {"draft": "dspark", "gamma": 2, "tokens_per_iteration": 2.37, "weights": "8bit"}
    a = whatif("qwen3.8-27b", "m1-max", 1, 1024, engine="mlx-dspark", **at)
    assert a.speedup == pytest.approx(0.91, rel=0.12)
    assert "pays" not in a.verdict


@pytest.mark.parametrize("engine", ["mlx", "mlx-dspark"])
@pytest.mark.parametrize("shared", [{"layer_split": 2}, {"gpu_layers": 8, "host_bandwidth": 80}])
def test_only_llama_cpp_shares_layers(engine: str, shared: dict[str, int]) -> None:
    with pytest.raises(InputError, match="engine: must be llamacpp, which has"):
        whatif("qwen3-8b", "m4-max", 1, 1024, engine=engine, draft="dflash", alpha=0.7, **shared)


def test_llama_cpp_on_a_mac_says_that_mlx_differs() -> None:
    at = ("qwen3.8-27b", "m1-max", 1, 1024)
    told = "MLX has other kernels for a few rows (--engine mlx)"
    assert told in whatif(*at, draft="dspark", gamma=3, alpha=0.7).warnings
    assert told not in whatif(*at, draft="dspark", alpha=0.7, engine="mlx").warnings
    assert told not in whatif("qwen3-8b", "rtx-4090", 1, 1024, draft="ngram", alpha=0.7).warnings


def test_the_line_starts_mlx_lm_with_the_draft_model() -> None:
    question = {"model": "llama-3.1-8b", "hardware": "m5-max", "context": 4096, "batch": 1, "engine": "mlx"}
    serve = advise(**question, draft=["llama-3.2-1b"], rate={"llama-3.2-1b": "0.9"}).serve  # type: ignore[arg-type]
    line = serve.lines["mlx"]
    assert line.startswith("mlx_lm.server --model mlx-community/Llama-3.1-8B-Instruct-4bit --draft-model ")
    assert "--draft-model mlx-community/Llama-3.2-1B-Instruct-4bit --num-draft-tokens" in line
    assert list(serve.lines) == ["mlx"]
    assert any("one request at a time" in note for note in serve.notes)


def test_words_of_mlx_are_formats_with_a_scale_and_a_bias_per_group() -> None:
    sizes = {
        word: weight_format(word).base.bytes_per_value * 8 for word in ("4bit", "8bit", "4bit-g32", "6bit")
    }
    assert sizes == {"4bit": 4.5, "8bit": 8.5, "4bit-g32": 5.0, "6bit": 6.5}
    assert weight_format("4bit").of("lm_head").bytes_per_value == 4.5 / 8
    assert weight_format("mxfp4-q8").of("experts").name == "mxfp4"
    query = Query("llama-3.1-8b", "m4-max", 1, 1024, engine="mlx", weights="q4_k_m")
    assert Named.of(query).precision(query).weights.name == "4bit"
    notes = whatif("llama-3.1-8b", "m4-max", 1, 1024, 0, engine="mlx", weights="fp8").warnings
    assert "MLX has no fp8 weights: the answer uses 8bit" in notes
    notes = whatif("llama-3.1-8b", "m4-max", 1, 1024, 0, engine="llamacpp", weights="8bit").warnings
    assert "llama.cpp has no 8bit weights: the answer uses q8_0; MLX has them (--engine mlx)" in notes


def test_mlx_runs_on_apple_devices_only() -> None:
    refused(r"one that runs on NVIDIA \(mlx: Apple\)", whatif, "qwen3-8b", "h100", 1, 1024, 0, engine="mlx")
    assert serving_engines()["mlx"].makers == serving_engines()["mlx-dspark"].makers == ("Apple",)
