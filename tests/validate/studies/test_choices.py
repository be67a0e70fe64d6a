"""Choices that were made with the held-out sources in sight change only together with the sources."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from perfmodel.errors import InputError
from perfmodel.validate.studies import choices


def leaves(choice: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """The values of nested choices, each with its place, so that a difference is one line."""
    if isinstance(choice, dict):
        for name, part in choice.items():
            yield from leaves(part, f"{place}/{name}")
    else:
        yield place, choice


def test_the_file_has_the_present_choices_and_sources() -> None:
    recorded = dict(leaves(choices.recorded()))
    present = dict(leaves(choices.present()))
    assert {place: value for place, value in present.items() if recorded.get(place) != value} == {}
    assert recorded.keys() == present.keys()


def test_another_choice_with_the_same_sources_is_refused_and_with_a_new_one_accepted() -> None:
    before = choices.recorded()
    now = copy.deepcopy(before)
    now["choices"]["without_rows"]["later_version"] = 0.5
    with pytest.raises(InputError, match=r"without_rows: may change only together with the set of sources"):
        choices.text(before, now)
    now["sources"].append("somebody/new")
    assert '"later_version": 0.5' in choices.text(before, now)
    assert choices.text(before, before) == choices.text(None, before) == choices.PATH.read_text("utf-8")
