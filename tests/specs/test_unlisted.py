"""Names that people have and no file states: each is refused with the nearest question."""

import pytest

from perfmodel.errors import InputError
from perfmodel.specs import load_gpu, parse_engine
from perfmodel.specs.boundary.unlisted import unlisted_names
from perfmodel.specs.engines.serving import programs, stack_titles


def test_no_listed_name_is_called_unlisted() -> None:
    names = unlisted_names()
    engines = {*stack_titles(), *stack_titles().values(), *programs()}
    assert not [name for name in engines for each in names.engines if each.has(name)]


def test_each_beginning_is_listed_once() -> None:
    names = unlisted_names()
    for listed in (names.engines, names.devices, names.weight_formats):
        beginnings = [name for each in listed for name in each.names]
        assert len(beginnings) == len(set(beginnings))


@pytest.mark.parametrize("spelled", ["ExLlamaV3", "ex-llama v2", "TabbyAPI"])
def test_an_unlisted_name_is_known_in_any_spelling(spelled: str) -> None:
    with pytest.raises(InputError, match=r"the nearest question is --engine llamacpp"):
        parse_engine(spelled)


def test_a_name_that_nobody_knows_has_the_alike_ones_and_the_way_to_a_file() -> None:
    with pytest.raises(InputError, match=r"did you mean rtx-4090-24gb.*give a file of its peaks"):
        load_gpu("rtx-4091")
