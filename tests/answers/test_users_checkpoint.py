"""A checkpoint of the user (``--model-path``): engines read its formats from its config.json."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perfmodel.answers.advice.advise import advise
from perfmodel.answers.advice.schedule import schedule
from perfmodel.errors import InputError
from tests.specs.configs import LLAMA

FLOAT8 = {"dynamic": False, "num_bits": 8, "type": "float"}
FP8 = {
    "quant_method": "modelopt",
    "quant_algo": "FP8",
    "config_groups": {"group_0": {"input_activations": FLOAT8, "weights": FLOAT8, "targets": ["Linear"]}},
    "ignore": ["lm_head"],
}
QUESTION: dict[str, Any] = {"model": "llama-3.1-8b", "hardware": "h100", "context": 8192, "draft": "eagle3"}
Folder = Callable[..., str]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """Writes a config.json with these quantisation settings, and returns its folder."""

    def write(**settings: object) -> str:
        config = LLAMA | ({"quantization_config": FP8 | settings} if settings else {})
        (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
        return str(tmp_path)

    return write


def _most_sequences(**question: object) -> int:
    return schedule(**QUESTION, **question).tables[0].ranges[-1].high  # type: ignore[arg-type]


def test_a_schedule_has_the_cache_whose_scales_are_in_the_checkpoint(folder: Folder) -> None:
    scaled = folder(kv_cache_scheme=FLOAT8)
    assert _most_sequences(model_path=scaled) == _most_sequences(kv_dtype="fp8")
    assert _most_sequences(model_path=scaled, kv_dtype="bf16") == _most_sequences()
    assert _most_sequences(model_path="nvidia/Llama-3.1-8B-Instruct-FP8") == _most_sequences(kv_dtype="fp8")
    assert _most_sequences(model_path=folder()) == _most_sequences()


def test_an_advice_has_it_too(folder: Folder) -> None:
    question = QUESTION | {"draft": ["eagle3"], "model_path": folder(kv_cache_scheme=FLOAT8)}
    assert "--kv-cache-dtype fp8" in advise(**question).serve.lines["vllm"]


def test_other_weights_than_predicted_are_said(folder: Folder) -> None:
    path = folder(kv_cache_scheme=FLOAT8)
    remark = f"{path} is fp8; the prediction is for bf16"
    assert schedule(**QUESTION, model_path=path).tables[0].export.remarks["vllm"] == remark
    same = schedule(**QUESTION, model_path=path, weights="fp8").tables[0].export.remarks
    assert "vllm" not in same
    quantised_on_load = schedule(**QUESTION, model_path=folder(), weights="fp8").tables[0].export.remarks
    assert "vllm" not in quantised_on_load


def test_a_folder_that_is_elsewhere_says_nothing_and_a_broken_config_is_refused(tmp_path: Path) -> None:
    assert _most_sequences(model_path="/on/the/server") == _most_sequences()
    (tmp_path / "config.json").write_text("{", encoding="utf-8")
    with pytest.raises(InputError, match=r"config\.json"):
        schedule(**QUESTION, model_path=str(tmp_path))
