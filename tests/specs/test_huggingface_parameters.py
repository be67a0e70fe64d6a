"""Hugging Face config files: parameters and sliding layers against transformers' own models."""

import json
import warnings

import pytest

from perfmodel.specs.huggingface import from_config
from tests.specs.configs import Config, sizes, table

BASE = sizes(7, 64, 8, 4, 96, 101, 512)
TINY: list[Config] = table("tiny_configs")
"""Classes of transformers, and the keys with which a tiny model of each is built."""


@pytest.mark.parametrize(("family", "keys"), [(t["class"], t["keys"]) for t in TINY], ids=[t["class"] for t in TINY])
def test_parameters_and_sliding_layers_equal_transformers(family: str, keys: Config) -> None:
    """An independent count: transformers builds a tiny model of the family from the same file."""
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transformers = pytest.importorskip("transformers")
        if not hasattr(transformers, family):
            pytest.skip(f"this transformers has no {family}")
        config = getattr(transformers, family)(**(BASE | keys))
        with torch.device("meta"):
            built = transformers.AutoModelForCausalLM.from_config(config)
    count = sum(p.numel() for p in built.parameters())
    # DeepSeek-V3's routing bias is a buffer in transformers but a weight in the checkpoint and in the card's count.
    count += sum(b.numel() for name, b in built.named_buffers() if name.endswith("e_score_correction_bias"))
    for use_diff in (True, False):
        spec = from_config(json.loads(config.to_json_string(use_diff=use_diff)), "c.json")
        assert spec.total_params == count
        if getattr(config, "layer_types", None) and config.model_type != "qwen3_moe":
            slides = ("sliding_attention", "chunked_attention")
            window = getattr(config, "sliding_window", None) or getattr(config, "attention_chunk_size", None)
            sliding = sum(kind in slides for kind in config.layer_types) if window else 0
            assert spec.num_sliding_layers == sliding
