"""The bundled models: parameter counts and KV sizes against what their makers print."""

from pathlib import Path

import pytest

from perfmodel.reading import data_folder, read_rows
from perfmodel.specs import ModelSpec, files, hub_id, load_model, served_id, short_name
from perfmodel.specs.models.checkpoint_rows import Checkpoint
from perfmodel.specs.models.names import load_bundled
from perfmodel.specs.models.variants import Variant
from tests.refusals import refused

NAMES = files.bundled_names("models")
B = 1e9


def shown(value: float) -> float:
    """Half a unit of the last digit that is printed: 16 -> 0.5, 8.03 -> 0.005."""
    return 0.5 * 10.0 ** -len(f"{value:g}".partition(".")[2])


def recomputes(computed: float, printed: float) -> bool:
    return abs(computed / B - printed) <= max(0.005 * printed, shown(printed))


# Printed counts that the config does not give, and why.
OFF = {
    "qwen2.5-32b": 0.01,  # 32.5B printed for 32.76B; its near twin Qwen3-32B prints 32.8B
    "kimi-k2": 0.015,  # the report rounds 1.026T to 1.04T
    "kimi-k2.5": 0.015,
    "glm-4.5": 0.007,  # the report counts the MTP layer, and no embedding
    "glm-4.6": 0.007,
    "glm-4.5-air": 0.009,
    "minimax-m2": 0.006,  # 230B printed for 228.7B
    "minimax-m2.7": 0.006,
    "llama-4-scout": 0.012,  # the card's count has the vision encoder
    "ministral-3-8b": 0.011,  # 8.4B printed for 8.49B
    "kimi-k3": 0.009,  # 2.8T printed for 2.777T
    "devstral-2-123b": 0.017,  # the name says 123B
    "qwen3.8-flash-next": 0.007,  # 125B printed, cut from 125.74B
}


def test_totals_recompute_but_for_those_with_a_reason() -> None:
    specs = {name: load_bundled(name) for name in NAMES}
    off = {n for n, spec in specs.items() if not recomputes(spec.total_params, spec.published.total_b)}
    assert off == set(OFF)
    for name, error in OFF.items():
        assert specs[name].total_params / B == pytest.approx(specs[name].published.total_b, rel=error)


@pytest.mark.parametrize("name", NAMES)
def test_other_counts_recompute(name: str) -> None:
    """Cards differ in whether input embedding and LM head count as active, and round to one or two digits."""
    spec = load_bundled(name)
    untied = 0 if spec.tie_word_embeddings else spec.embedding_params
    if printed := spec.published.active_b:
        counted = [spec.active_params + n for n in (0, untied, -spec.embedding_params)]
        nearest = min(abs(params - printed * B) for params in counted) / B
        assert nearest < max(0.022 * printed, shown(printed))  # 2.4 printed for 2.45, the worst
    if printed := spec.published.nonembedding_b:
        assert (spec.total_params - spec.embedding_params - untied) / B == pytest.approx(printed, rel=0.01)


def test_a_checkpoint_in_other_formats_is_the_same_model() -> None:
    """Every listed one is found by its id and by the part behind the owner, in the formats listed."""
    rows = read_rows(data_folder("models") / "checkpoints.csv", Checkpoint)
    assert len(rows) >= 50
    for row in rows:
        checkpoint = load_model(row.checkpoint)
        shape = load_model(row.model)
        tail = row.checkpoint.rpartition("/")[2]
        first = next(r for r in rows if r.checkpoint.lower().endswith(f"/{tail.lower()}"))
        assert load_model(tail) == load_model(first.checkpoint)
        assert checkpoint.name == shape.name
        assert checkpoint.weights == row.weights
        assert checkpoint.kv_dtype == row.kv_dtype
        assert hub_id(row.checkpoint) == row.checkpoint
        thinks = "thinking" in row.checkpoint.lower() and "thinking" not in row.model
        has_acceptance_of_model = not thinks
        assert (short_name(row.checkpoint) == short_name(row.model)) is has_acceptance_of_model
    refused("no model named 'qwen/qwen3-32b-fp9'", load_model, "qwen/qwen3-32b-fp9")


def test_a_user_file_by_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text((files.data_directory("models") / "llama-3.1-8b.yaml").read_text())
    assert load_model(str(path)) == load_model("llama-3.1-8b")
    assert load_model(str(path.rename(tmp_path / "mine"))) == load_model("llama-3.1-8b")
    refused("--model: no model named 'mine'", load_model, "mine")


EXPERTS = {"num_experts": 4, "experts_per_token": 2, "intermediate_size": 8}
STATE = {"kind": "conv", "num_key_heads": 1, "num_value_heads": 1, "key_head_dim": 1, "value_head_dim": 1}
INDEXER = {"num_heads": 4, "head_dim": 128, "topk": 2048, "layers": 1}
GATE = {"name": "gate", "inputs": 1, "outputs": 1}
SLIDING = {"num_attention_heads": 4, "head_dim": 8}


@pytest.mark.parametrize(("head_dim", "head"), [(128, "usual"), (256, "usual"), (264, "wide"), (512, "wide")])
def test_heads_of_more_than_256_values_have_other_kernels(head_dim: int, head: str) -> None:
    assert load_model("llama-3.1-8b").replace(head_dim=head_dim).head == head


@pytest.mark.parametrize(
    ("key", "last", "beyond"),
    [
        ("attention_layers", 32, 33),
        ("mlp_layers", 32, 33),
        ("attention_layers", 0, -1),
        ("rope_theta", 1e15, 1.1e15),
        ("partial_rotary_factor", 1.0, 1.01),
        ("num_hidden_layers", 10_000, 10_001),
        ("hidden_size", 2**24, 2**24 + 1),
        ("max_position_embeddings", 2**40, 2**40 + 1),
        ("table_params", 2**48, 2**48 + 1),
        ("moe", EXPERTS | {"first_dense_layers": 32}, EXPERTS | {"first_dense_layers": 33}),
        ("moe", EXPERTS | {"experts_per_token": 4}, EXPERTS | {"experts_per_token": 5}),
        ("linear_attention", STATE | {"layers": 32}, STATE | {"layers": 33}),
        ("linear_attention", STATE | {"layers": 1}, STATE | {"layers": 0}),
        ("projections", [GATE | {"layers": 1}], [GATE | {"layers": 0}]),
        ("sliding_heads", SLIDING | {"num_key_value_heads": 2}, SLIDING | {"num_key_value_heads": 3}),
        ("num_sliding_layers", 32, 33),
        ("indexer", INDEXER | {"dense_layers": 32}, INDEXER | {"dense_layers": 33}),
    ],
)
def test_the_ends_of_what_a_model_may_have(key, last, beyond) -> None:
    llama = files.read_mapping(files.data_directory("models") / "llama-3.1-8b.yaml")
    if key == "num_sliding_layers":
        llama["sliding_window"] = 8
    files.parse(ModelSpec, llama | {key: last}, "mine.yaml")
    refused(r"^mine\.yaml: ", files.parse, ModelSpec, llama | {key: beyond}, "mine.yaml")


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("meta-llama/Meta-Llama-3-8B-Instruct", 8192),
        ("llama-3-70b", 8192),
        ("deepseek-ai/DeepSeek-R1-0528-Qwen3-8B", 131_072),
        ("llama-3.1-8b-instruct", 131_072),
        ("qwen3-8b", 40_960),
    ],
)
def test_a_variant_of_a_shape_has_its_own_longest_context(name: str, most: int) -> None:
    assert load_model(name).max_position_embeddings == most


@pytest.mark.parametrize(
    ("name", "model", "official"),
    [
        ("nemotron-3-super", "nemotron-3-super-120b-a12b", "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16"),
        (
            "nemotron-3-super-120b",
            "nemotron-3-super-120b-a12b",
            "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16",
        ),
        ("Qwen3.6-35B", "qwen3.5-35b-a3b", "Qwen/Qwen3.6-35B-A3B"),
        ("gemma-4-26b-it", "gemma-4-26b-a4b", "google/gemma-4-26B-A4B-it"),
        ("qwen3-30b", "qwen3-30b-a3b", "Qwen/Qwen3-30B-A3B"),
        ("seed-oss", "seed-oss-36b", "ByteDance-Seed/Seed-OSS-36B-Instruct"),
    ],
)
def test_the_sizes_of_the_only_model_of_a_name_may_be_left_out(name: str, model: str, official: str) -> None:
    assert load_model(name).name == model
    assert served_id(name) == official


@pytest.mark.parametrize("name", ["nemotron-3-nano", "qwen3", "gpt-oss", "llama-3.1"])
def test_a_name_of_several_sizes_is_refused(name: str) -> None:
    refused(f"no model named '{name}'; did you mean", load_model, name)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("Qwen/Qwen3-4B-Instruct-2507", "qwen3-4b"),
        ("unsloth/Qwen3-4B-Thinking-2507-GGUF", "qwen3-4b"),
        ("NousResearch/Hermes-4-70B", "llama-3.1-70b"),
        ("hermes-4-14b", "qwen3-14b"),
        ("google/gemma-2-27b-it", "gemma-2-27b"),
        ("allenai/Olmo-3-32B-Think", "olmo-3-32b"),
        ("Qwen/Qwen2.5-VL-7B-Instruct", "qwen2.5-7b"),
        ("mistralai/Devstral-Small-2507", "mistral-small-3.2-24b"),
        ("mistral-nemo", "mistral-nemo-12b"),
    ],
)
def test_a_tuned_model_has_the_shape_of_its_base(name: str, shape: str) -> None:
    assert load_model(name).name == shape


def test_every_variant_is_another_name_of_a_bundled_model() -> None:
    rows = read_rows(data_folder("models") / "variants.csv", Variant)
    assert rows
    for row in rows:
        assert load_model(row.name).name != row.name
