"""What every file of a model and every row of a family must keep. An addition is found by its name."""

import pytest

from perfmodel.answers.point.whatif import whatif
from perfmodel.cli import models as model_catalogue
from perfmodel.errors import InputError
from perfmodel.specs import files, load_model
from perfmodel.specs.huggingface import from_config
from perfmodel.specs.huggingface.families import family_of, rows
from perfmodel.specs.models.names import load_bundled

MODELS = files.bundled_names("models")


@pytest.mark.parametrize("name", MODELS)
def test_a_model_has_the_name_of_its_file_and_a_source_and_answers(name: str) -> None:
    spec = load_bundled(name)
    assert spec.name == name
    assert spec.hf_id
    assert spec.published.total_b
    assert model_catalogue.CATALOGUE.faults(spec) == []
    assert len(spec.source) > 10
    answer = whatif(name, "b200", 1, 1024, gamma=2, draft_kv="streamingllm:256", alpha=0.8, weights="bf16")
    answer = answer.as_dict()
    assert answer["memory"]["weight_bytes"] > 0.999 * 2 * spec.active_params  # bf16; some norms are left out
    assert 0 < answer["target_step"]["lower_s"] <= answer["target_step"]["predicted_s"]


def test_an_alias_names_one_model() -> None:
    seen: list[str] = list(MODELS)
    for name in MODELS:
        spec = load_bundled(name)
        seen += [alias.lower() for alias in (*spec.aliases, spec.hf_id or "")]
        assert all(load_model(alias).name == spec.name for alias in (*spec.aliases, spec.hf_id or ""))
    assert len(seen) == len(set(seen))


@pytest.mark.parametrize("model_type", rows())
def test_a_family_has_a_source_and_a_refusal_names_the_key_that_a_file_lacks(model_type: str) -> None:
    family = family_of(model_type)
    assert len(family.source) > 10
    with pytest.raises(InputError, match=r"^c\.json: [\w.]+: must be .*, and it is missing$"):
        from_config({"model_type": model_type}, "c.json")
