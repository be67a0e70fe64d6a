"""Choices that were made with the held-out sources in sight change only together with the sources."""

import copy

import pytest

from perfmodel.errors import InputError
from perfmodel.validate.studies import choices


def test_the_file_has_the_present_choices_and_sources() -> None:
    assert choices.recorded() == choices.present()


def test_another_choice_with_the_same_sources_is_refused_and_with_a_new_one_accepted() -> None:
    before = choices.recorded()
    now = copy.deepcopy(before)
    now["choices"]["without_rows"]["later_version"] = 0.5
    with pytest.raises(InputError, match=r"without_rows: may change only together with the set of sources"):
        choices.text(before, now)
    now["sources"].append("somebody/new")
    assert '"later_version": 0.5' in choices.text(before, now)
    assert choices.text(before, before) == choices.text(None, before) == choices.PATH.read_text("utf-8")
