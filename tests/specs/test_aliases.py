"""Names that people paste: what ``nvidia-smi`` prints, Hugging Face ids, data sheets; two meanings are
refused.
"""

import pytest

from perfmodel.specs.boundary import files
from perfmodel.specs.devices import gpu
from perfmodel.specs.devices.gpu import load_gpu
from perfmodel.specs.models import model
from perfmodel.specs.models.model import load_model

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
    "NVIDIA GeForce RTX 4070 Ti SUPER": "rtx-4070-ti-super-16gb",
    "NVIDIA RTX PRO 6000 Blackwell Workstation Edition": "rtx-pro-6000-workstation-96gb",
    "NVIDIA GB10": "dgx-spark-128gb",
    "HP ZGX Nano": "dgx-spark-128gb",
    "Ryzen AI Max+ 395": "ryzen-ai-max-395-128gb",
    "AMD Radeon RX 7900 XTX": "rx-7900-xtx-24gb",
    "Apple M4 Max": "apple-m4-max-128gb",
    "NVIDIA A800-SXM4-80GB": "a800-sxm-80gb",
}
MODELS = {
    "meta-llama/Meta-Llama-3.1-8B-Instruct": "llama-3.1-8b",
    "Llama-3.1-8B-Instruct": "llama-3.1-8b",
    "Llama-3.3-70B": "llama-3.1-70b",
    "Qwen/Qwen2.5-72B-Instruct": "qwen2.5-72b",
    "google/gemma-2-9b-it": "gemma-2-9b",
}


def test_a_device_or_model_by_the_name_that_was_pasted() -> None:
    for given, name in DEVICES.items():
        assert load_gpu(given) == load_gpu(f"  {given.upper()} ") == gpu.load_bundled(name)
    for given, name in MODELS.items():
        assert load_model(given) == model.load_bundled(name)


@pytest.mark.parametrize(
    ("load", "names_of", "kind"),
    [
        (gpu, gpu.other_names, "gpus"),
        (model, model.other_names, "models"),
    ],
)
def test_the_lines_that_names_are_read_from_hold_all_of_them(load, names_of, kind) -> None:
    """Equal to what the whole files say."""
    folder, whole = files.data_directory(kind), dict[str, set[str]]()
    for name in files.bundled_names(kind):
        for alias in names_of(files.read_mapping(folder / f"{name}.yaml")):
            whole.setdefault(files.spelling(alias), set()).add(name)
    assert {alias: set(names) for alias, names in load.aliases().items()} == whole


@pytest.mark.parametrize(
    ("name", "served"),
    [
        ("llama-3.1-8b", "meta-llama/Meta-Llama-3.1-8B"),
        ("Llama-3.3-70B", "meta-llama/Llama-3.3-70B-Instruct"),
        ("llama-3.1-70b-instruct", "meta-llama/Llama-3.1-70B-Instruct"),
        ("deepseek-r1-distill-llama-8b", "deepseek-ai/DeepSeek-R1-Distill-Llama-8B"),
        ("glm-4.7", "zai-org/GLM-4.7"),
        ("mistral-small-3.1-24b", "mistralai/Mistral-Small-3.1-24B-Instruct-2503"),
        ("llama2-7b", "meta-llama/Llama-2-7b-hf"),  # another spelling of the bundled name
        ("META-LLAMA/llama-3.1-8b", "meta-llama/Llama-3.1-8B"),
        ("Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-7B-Instruct"),  # not listed, but an id as it is
        ("qwen2.5-7b-instruct", None),  # whose is not said
    ],
)
def test_the_id_is_of_just_the_model_that_is_named(name: str, served: str | None) -> None:
    assert model.hub_id(name) == served
