"""Names that people have and no file states: each is refused with the nearest question."""

import pytest

import perfmodel as pm
from perfmodel.errors import InputError
from perfmodel.specs import load_gpu, load_model, parse_engine
from perfmodel.specs.boundary.unlisted import unlisted_names
from perfmodel.specs.engines.stacks import programs, stack_titles


def test_no_listed_name_is_called_unlisted() -> None:
    names = unlisted_names()
    engines = {*stack_titles(), *stack_titles().values(), *programs()}
    assert not [name for name in engines for each in names.engines if each.has(name)]


def test_each_beginning_is_listed_once() -> None:
    names = unlisted_names()
    for listed in (names.engines, names.devices, names.models, names.weight_formats):
        beginnings = [name for each in listed for name in each.names]
        assert len(beginnings) == len(set(beginnings))


@pytest.mark.parametrize("spelled", ["ExLlamaV3", "ex-llama v2", "TabbyAPI"])
def test_an_unlisted_name_is_known_in_any_spelling(spelled: str) -> None:
    with pytest.raises(InputError, match=r"the nearest question is --engine llamacpp"):
        parse_engine(spelled)


@pytest.mark.parametrize("name", ["zai-org/GLM-OCR", "glm-ocr", "OpenGVLab/InternVL3-8B"])
def test_a_model_of_pictures_has_the_nearest_question(name: str) -> None:
    with pytest.raises(
        InputError, match=r"is not modelled: its encoder .* the nearest question is its language"
    ):
        load_model(name)


@pytest.mark.parametrize(
    ("name", "shape", "longest"),
    [
        ("lmsys/vicuna-7b-v1.3", "llama-2-7b", 2048),
        ("vicuna-13b-v1.5", "llama-2-13b", 4096),
        ("deepseek-r1:70b", "llama-3.1-70b", 131072),
    ],
)
def test_another_name_of_a_shape_is_known(name: str, shape: str, longest: int) -> None:
    known = load_model(name)
    assert known.name == shape
    assert known.max_position_embeddings == longest


def test_a_name_that_nobody_knows_has_the_alike_ones_and_the_way_to_a_file() -> None:
    with pytest.raises(InputError, match=r"did you mean rtx-4090-24gb.*give a file of its peaks"):
        load_gpu("rtx-4091")


@pytest.mark.parametrize("name", ["redrafter", "owner/redrafter", "apple/recurrent-drafter-7b"])
def test_a_draft_that_is_not_modelled_is_known_with_its_owner(name: str) -> None:
    with pytest.raises(InputError, match=r"is not modelled: its head has another shape .* draft eagle"):
        pm.whatif("llama-3.1-8b", "h100", batch=1, context=4096, draft=name)


@pytest.mark.parametrize("draft", ["./mine", "../mine/", "/models/mine", "eagle3:./mine"])
def test_a_path_that_does_not_exist_is_named(draft: str) -> None:
    path = draft.removeprefix("eagle3:").rstrip("/")
    with pytest.raises(InputError, match=f"^draft: there is no file or folder '{path}'$"):
        pm.whatif(model="llama-3.1-8b", hardware="h100", batch=1, context=1024, draft=draft)
