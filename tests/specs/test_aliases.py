"""Names that people paste: what ``nvidia-smi`` prints, Hugging Face ids, data sheets; two meanings are
refused.
"""

from pathlib import Path

import pytest

from perfmodel.specs.__main__ import STATED, stated
from perfmodel.specs.boundary import files
from perfmodel.specs.boundary.ready import READY
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


@pytest.mark.parametrize("kind", STATED)
def test_what_is_ready_is_what_the_files_state(kind: str) -> None:
    """Written by ``python -m perfmodel.specs``; equal to what is read and checked, which `stated` does
    anew.
    """
    folder = files.data_directory(kind)
    assert (folder / READY).read_text(encoding="utf-8") == stated(kind)
    for name, spec in STATED[kind].items():
        path = folder / f"{name}.yaml"
        anew = files.parse(spec, files.read_mapping(path), str(path))
        assert repr(files.load_bundled(spec, kind, name)) == repr(anew)


def test_a_file_that_was_changed_or_that_the_index_lacks_is_read_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = files.data_directory("gpus")
    (tmp_path / READY).write_bytes((folder / READY).read_bytes())
    (tmp_path / "mine.yaml").write_text("{name: mine, title: My own, vendor: me}")
    changed = (folder / "l4-24gb.yaml").read_text(encoding="utf-8").replace("NVIDIA L4", "Another L4")
    (tmp_path / "l4-24gb.yaml").write_text(changed, encoding="utf-8")
    monkeypatch.setattr(files, "data_directory", lambda kind: tmp_path)
    monkeypatch.setattr(files, "bundled_names", lambda kind: ("h100-sxm-80gb", "mine"))
    assert files.load_bundled(gpu.GPUSpec, "gpus", "l4-24gb").title.startswith("Another")
    table = files.alias_table("gpus", gpu.other_names)
    assert (table["h100"], table["my-own"], table["me-mine"]) == (("h100-sxm-80gb",), ("mine",), ("mine",))


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


def test_every_name_of_a_bundled_model_has_the_id_that_reads_like_it() -> None:
    """Of an id the id itself, else one that this model lists; for its own name its own."""
    for name in files.bundled_names("models"):
        spec = model.load_bundled(name)
        ids = [spec.hf_id, *(a for a in spec.aliases if "/" in a)]
        assert model.hub_id(name) == spec.hf_id
        for i in ids:
            assert model.hub_id(i) == i
            assert model.hub_id(i.rpartition("/")[2]) in ids
