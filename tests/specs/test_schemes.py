"""Modules that a checkpoint leaves unquantised, as each tool lists them."""

import pytest

from perfmodel.specs.huggingface.keys import Keys
from perfmodel.specs.huggingface.schemes import scheme_of

MODULE = "layers.0.mlp.down_proj"


@pytest.mark.parametrize(
    "key",
    [
        "modules_to_not_convert",
        "ignored_layers",
        "ignore",
        "exclude",
        "exclude_modules",
        "llm_int8_skip_modules",
    ],
)
def test_every_list_of_unquantised_modules_is_read(key: str) -> None:
    scheme = scheme_of(Keys({"quant_method": "fp8", key: [MODULE]}, "config.json"))
    assert scheme.of(MODULE) == "bf16"
    assert scheme.of("layers.1.mlp.down_proj") == "fp8"


@pytest.mark.parametrize(
    "prefix", ["model", "language_model", "text_model", "transformer", "backbone", "model.language_model"]
)
def test_a_module_is_meant_whatever_contains_its_layers(prefix: str) -> None:
    scheme = scheme_of(Keys({"quant_method": "fp8", "ignore": [f"{prefix}.{MODULE}"]}, "config.json"))
    assert scheme.of(MODULE) == "bf16"
    assert scheme.of("layers.1.mlp.down_proj") == "fp8"


@pytest.mark.parametrize(
    "pattern", [r"re:.*down_proj$", "layers.*.mlp.down_proj", "mlp.down_proj", "layers.0"]
)
def test_a_module_is_named_by_a_pattern_or_a_part_of_its_path(pattern: str) -> None:
    scheme = scheme_of(Keys({"quant_method": "fp8", "ignore": [pattern]}, "config.json"))
    assert scheme.of(MODULE) == "bf16"
    assert scheme.of("layers.1.mlp.up_proj") == "fp8"
