"""Names that people paste: what ``nvidia-smi`` prints, Hugging Face ids, data sheets; two meanings are
refused.
"""

import json
import re
from pathlib import Path

import pytest

from perfmodel import InputError, whatif
from perfmodel.specs import files, hub_id, load_gpu, load_model, served_id, short_name
from perfmodel.specs.devices import loading
from perfmodel.specs.models import names
from perfmodel.specs.models.loading import named_format
from tests.specs.configs import TABLE

DEVICES = {
    "NVIDIA A100-PCIE-40GB": "a100-pcie-40gb",
    "A100-40GB": "a100-sxm-40gb",
    "NVIDIA A100 80GB PCIe": "a100-pcie-80gb",
    "NVIDIA A100-SXM4-80GB": "a100-sxm-80gb",
    "NVIDIA B300 SXM6 AC": "b300-sxm-288gb",
    "NVIDIA H100 80GB HBM3": "h100-sxm-80gb",
    "h100 sxm": "h100-sxm-80gb",
    "H100_SXM_80GB": "h100-sxm-80gb",
    "AMD Instinct MI300X": "mi300x-192gb",
    "NVIDIA GeForce RTX 5090": "rtx-5090-32gb",
    "NVIDIA GeForce RTX 4090 Laptop GPU": "rtx-4090-laptop-16gb",
    "NVIDIA GeForce RTX 3080 Laptop GPU": "rtx-3080-laptop-16gb",
    "NVIDIA GeForce GTX 1080 Ti": "gtx-1080-ti-11gb",
    "NVIDIA RTX 4000 Ada Generation": "rtx-4000-ada-20gb",
    "AMD Radeon RX 6700 XT": "rx-6700-xt-12gb",
    "Ryzen 7 8845HS w/ Radeon 780M": "radeon-780m-32gb",
    "RTX 4080S": "rtx-4080-super-16gb",
    "Intel(R) Arc(TM) A750 Graphics": "arc-a750-8gb",
    "NVIDIA GeForce RTX 4070 Ti SUPER": "rtx-4070-ti-super-16gb",
    "NVIDIA RTX PRO 6000 Blackwell Workstation Edition": "rtx-pro-6000-workstation-96gb",
    "NVIDIA GB10": "dgx-spark-128gb",
    "HP ZGX Nano": "dgx-spark-128gb",
    "Ryzen AI Max+ 395": "ryzen-ai-max-395-128gb",
    "AMD Radeon RX 7900 XTX": "rx-7900-xtx-24gb",
    "Apple M4 Max": "apple-m4-max-128gb",
    "NVIDIA A800-SXM4-80GB": "a800-sxm-80gb",
    "Radeon RX 7900 XTX 24GB": "rx-7900-xtx-24gb",
    "Card Series: Radeon RX 7900 XTX": "rx-7900-xtx-24gb",
    "H100 80GB SXM5": "h100-sxm-80gb",
    "A100 40 GB": "a100-sxm-40gb",
    "B200 192GB": "b200-sxm-180gb",
    "1x RTX 3090 (24GB)": "rtx-3090-24gb",
    "Mac Studio M2 Ultra 192GB": "apple-m2-ultra-192gb",
    "macbook-pro-m4-max-128gb": "apple-m4-max-128gb",
    "mac-mini-m4-pro": "apple-m4-pro-64gb",
    "macbook-air-m4": "apple-m4-32gb",
    "Bosgame M5": "ryzen-ai-max-395-128gb",
    "AMD RYZEN AI MAX+ 395 w/ Radeon 8060S": "ryzen-ai-max-395-128gb",
    "Ryzen AI Max+ 395 (Strix Halo)": "ryzen-ai-max-395-128gb",
    "NVIDIA GH200 480GB": "gh200-96gb",
    "NVIDIA GH200 144G HBM3e": "gh200-144gb",
    "RTX 3090 (OC)": "rtx-3090-24gb",
    "Intel(R) Arc(TM) Pro B70 Graphics": "arc-pro-b70-32gb",
    "VGA compatible controller: NVIDIA Corporation AD102 [GeForce RTX 4090] (rev a1)": "rtx-4090-24gb",
    "VGA compatible controller [0300]: NVIDIA GA102 [GeForce RTX 3090] [10de:2204]": "rtx-3090-24gb",
}
REFUSED = {
    "2x RTX 5060 Ti 16GB": "one device: rtx-5060-ti-16gb with --tp 2",
    "H100 x8": "h100-sxm-80gb with --tp 8",
    "2x DGX Spark": "one device: dgx-spark-128gb with --tp 2",
    "4*L40S": "one device: l40s-48gb with --tp 4",
    "RTX 3080 12GB": "rtx-3080-10gb has 10 GB, and rtx-3080-10gb:12gb is",
    "NVIDIA GeForce RTX 5050 Laptop GPU": "no device named",
    "RTX 6000": "no device named",
    "AMD Radeon Graphics": "no device named",
}
MODELS = {
    "meta-llama/Meta-Llama-3.1-8B-Instruct": "llama-3.1-8b",
    "Llama-3.1-8B-Instruct": "llama-3.1-8b",
    "Llama-3.3-70B": "llama-3.1-70b",
    "Qwen/Qwen2.5-72B-Instruct": "qwen2.5-72b",
    "google/gemma-2-9b-it": "gemma-2-9b",
    "Meta-Llama-3-8B-Instruct": "llama-3.1-8b",
}
FORMATS = {
    "unsloth/Llama-3.3-70B-Instruct-FP8": ("llama-3.1-70b", "fp8", "llama-3.3-70b"),
    "RedHatAI/Llama-4-Maverick-17B-128E-Instruct-FP8": (
        "llama-4-maverick",
        "fp8",
        "llama-4-maverick-17b-128e",
    ),
    "RedHatAI/Llama-3.3-70B-Instruct-quantized.w4a16": ("llama-3.1-70b", "int4-g128-sym", "llama-3.3-70b"),
    "cyankiwi/Qwen3.6-27B-AWQ-INT4": ("qwen3.5-27b", "awq", "qwen3.6-27b"),
    "RedHatAI/Qwen3-8B-FP8-dynamic": ("qwen3-8b", "fp8", "qwen3-8b"),
    "Qwen3.6-27B-GPTQ-8bit": ("qwen3.5-27b", "int8-g128-sym", "qwen3.6-27b"),
    "nvidia/DeepSeek-R1-FP4": ("deepseek-r1", "nvfp4", "deepseek-r1"),
}


COMMON_WORDS = {
    "ATI Radeon RX 7900 XTX 24 GB": "rx-7900-xtx-24gb",
    "Tesla L4": "l4-24gb",
    "Intel Corporation Arc A770": "arc-a770-16gb",
    "Advanced Micro Devices, Inc. RX 7900 XTX": "rx-7900-xtx-24gb",
    "H100 GPU 80GB": "h100-sxm-80gb",
    "RTX 3080 10GB (Desktop)": "rtx-3080-10gb",
    "H200 141GB HBM3e": "h200-sxm-141gb",
    "RTX 3090 24GB GDDR6X": "rtx-3090-24gb",
}
"""Names with a word that no spelling of the device has."""


@pytest.mark.parametrize(("given", "name"), COMMON_WORDS.items())
def test_a_word_that_tells_no_devices_apart_may_be_added(given: str, name: str) -> None:
    assert load_gpu(given).name == name


def test_a_memory_size_may_differ_by_less_than_a_tenth() -> None:
    """A B200 has 180 GB: 197 GB is 9.4 % more, 199 GB is 10.6 % more."""
    assert load_gpu("B200 197GB").name == "b200-sxm-180gb"
    with pytest.raises(InputError):
        load_gpu("B200 199GB")


def test_a_device_or_model_by_the_name_that_was_pasted() -> None:
    for pasted, name in DEVICES.items():
        assert load_gpu(pasted) == load_gpu(f"  {pasted.upper()} ") == loading.load_bundled(name)
    for pasted, name in MODELS.items():
        bundled = names.load_bundled(name)
        limit = {"max_position_embeddings": load_model(pasted).max_position_embeddings}  # of a variant
        assert load_model(pasted) == bundled.replace(**limit)
    assert load_gpu("MacBook Pro M4 Max 64GB").stated_memory.value == 64  # sold with several sizes


@pytest.mark.parametrize(("given", "words"), REFUSED.items())
def test_several_devices_and_another_memory_are_refused_with_the_question_to_ask(given, words) -> None:
    with pytest.raises(InputError, match=re.escape(words)):
        load_gpu(given)


@pytest.mark.parametrize(("given", "meant"), FORMATS.items())
def test_a_checkpoint_whose_name_ends_with_its_format(given, meant) -> None:
    """Its weights and the acceptance of its base model, with a warning; none with ``--weights``."""
    model = load_model(given)
    assert (model.name, model.weights, short_name(given)) == meant
    question = {"model": given, "hardware": "b200", "tp": 8, "batch": 1, "context": 1024, "gamma": 0}
    assert [meant[1] in w for w in whatif(**question).warnings if "assumed from the name" in w] == [True]
    assert not any("assumed from the name" in w for w in whatif(**question, weights="fp8").warnings)


@pytest.mark.parametrize(
    ("load", "names_of", "kind"),
    [
        (loading, loading.other_names, "gpus"),
        (names, names.other_names, "models"),
    ],
)
def test_the_lines_that_names_are_read_from_hold_all_of_them(load, names_of, kind) -> None:
    """Equal to what the whole files say."""
    folder = files.data_directory(kind)
    whole = dict[str, set[str]]()
    for name in files.bundled_names(kind):
        for alias in names_of(files.read_mapping(folder / f"{name}.yaml")):
            whole.setdefault(files.spelling(alias), set()).add(name)
    assert {alias: {name} for alias, name in load.aliases().items()} == whole


@pytest.mark.parametrize(
    ("name", "served"),
    [
        ("llama-3.1-8b", "meta-llama/Meta-Llama-3.1-8B"),
        ("Llama-3.3-70B", "meta-llama/Llama-3.3-70B-Instruct"),
        ("llama-3.1-70b-instruct", "meta-llama/Llama-3.1-70B-Instruct"),
        ("llama-3-8b", "meta-llama/Meta-Llama-3-8B"),
        ("deepseek-r1-distill-llama-8b", "deepseek-ai/DeepSeek-R1-Distill-Llama-8B"),
        ("glm-4.7", "zai-org/GLM-4.7"),
        ("mistral-small-3.1-24b", "mistralai/Mistral-Small-3.1-24B-Instruct-2503"),
        ("llama2-7b", "meta-llama/Llama-2-7b-hf"),  # another spelling of the bundled name
        ("META-LLAMA/llama-3.1-8b", "meta-llama/Llama-3.1-8B"),
        ("Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-7B-Instruct"),  # not listed, but an id as it is
        ("someone/nemotron-3-super", "someone/nemotron-3-super"),  # sizes are added to short names alone
        ("phi-4-instruct", None),  # whose is not said
        ("tulu-3-8b", "allenai/Llama-3.1-Tulu-3-8B"),  # the model tuned from the one whose shape it has
        ("deepseek-r1-32b", "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B"),
        ("openthinker-32b", "open-thoughts/OpenThinker-32B"),
        ("nemotron-super-49b-v1.5", "nvidia/Llama-3_3-Nemotron-Super-49B-v1_5"),
        ("devstral-small-1.1", None),  # no listed id has this number
        ("jackfram-68m", "JackFram/llama-68m"),  # millions of parameters are no part of the name's words
    ],
)
def test_the_id_is_of_just_the_model_that_is_named(name: str, served: str | None) -> None:
    assert hub_id(name) == served


def test_a_typed_id_is_served_as_it_is() -> None:
    """A short name stands for the model that follows instructions, an id for itself."""
    assert served_id("llama-3.1-8b") == "meta-llama/Llama-3.1-8B-Instruct"
    assert served_id("gemma-2-9b") == "google/gemma-2-9b-it"
    assert served_id("meta-llama/Llama-3.1-8B") == "meta-llama/Llama-3.1-8B"


@pytest.mark.parametrize("name", ["Qwen3-30B-A3B-Thinking-2507", "Qwen3-VL-8B-Thinking"])
def test_the_short_name_of_a_thinking_model_is_not_served_by_another_model(name: str) -> None:
    assert served_id(name.lower()) == f"Qwen/{name}"


def test_a_folder_is_its_own_id_and_its_name_states_no_format(tmp_path: Path) -> None:
    folder = tmp_path / "Llama-3.1-8B-FP8"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(TABLE["qwen3-0.6b"]["config"]))
    assert hub_id(str(folder)) == served_id(str(folder)) == str(folder)
    assert named_format(str(folder)) is None
    assert load_model(str(folder)).weights == "bf16"


def test_only_an_unlisted_checkpoint_has_its_format_by_name() -> None:
    assert named_format("casperhansen/llama-3.3-70b-instruct-awq") is None  # listed
    assert named_format("someone/llama-3.3-70b-instruct-awq") == "awq"


def test_dashes_may_be_left_out_where_one_device_is_meant() -> None:
    assert load_gpu("4070ti").name == "rtx-4070-ti-12gb"
    assert load_gpu("RTX3090TI").name == "rtx-3090-ti-24gb"


def test_a_size_that_a_name_leaves_out_is_said() -> None:
    """There are other sizes of InternLM2.5 than the one that is bundled."""
    said = "internlm2.5 means internlm2.5-20b, the only size that is bundled"
    assert said in whatif("internlm2.5", "h100", 1, 2048, 0).warnings
    for name in ("internlm2.5-20b", "qwen3-30b", "internlm/internlm2_5-20b-chat"):
        assert not [text for text in whatif(name, "h100", 1, 2048, 0).warnings if "only size" in text]
