"""Each rule by which two speeds in a sentence are told apart, with a text that only this rule reads."""

import pytest

from perfmodel.validate.engine.drafting_words import stated
from perfmodel.validate.engine.formats import read_pasted
from perfmodel.validate.engine.pastes.two_speeds import TwoSpeeds
from perfmodel.validate.engine.timing import GivenFacts
from tests.refusals import refused

GIVEN = GivenFacts(input=500, gamma=3, accepted=2.0)


def kinds(text: str) -> list[int]:
    """The draft length of each speed; empty if the text is no comparison of speeds."""
    if not TwoSpeeds().has(text):
        return []
    return [timing.gamma for timing in read_pasted("-", text, GIVEN)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("MTP 3: 52 tok/s. {} 33 tok/s", [3, 0]),
        ("33 tok/s. {} 52 tok/s by MTP", [0, 3]),
    ],
)
@pytest.mark.parametrize(
    "contrast",
    [
        *("->", "=>", "→", "Enabled", "enabling it:", "Disabled", "disabling it:", "Dropped:", "drops to"),
        *("Turned:", "turning it:", "from", "instead", "Before", "otherwise", "vs", "versus", "compared:"),
        *("than", "slower:", "Faster:"),
    ],
)
def test_each_word_that_contrasts_two_speeds(text: str, expected: list[int], contrast: str) -> None:
    assert kinds(text.format("Here")) == [], "no word contrasts the speeds"
    assert kinds(text.format(contrast)) == expected


@pytest.mark.parametrize("prompt", ["prompt", "prefill", "pp"])
def test_a_contrast_with_the_speed_of_a_prompt_says_nothing(prompt: str) -> None:
    text = "MTP 3: 52 tok/s versus 900 tok/s{}"
    assert kinds(text.format("")) == [3, 0]
    assert kinds(text.format(f" of {prompt}")) == []


@pytest.mark.parametrize("end", ["->", "=>", "-->", "→", ";", ",", "/", "vs", "vs.", "to", "and", "then"])
def test_each_end_of_the_words_after_a_speed(end: str) -> None:
    text = "Qwen + MTP draft: 34 tok/s baseline{} 41 tok/s with draft"
    assert kinds(text.format("")) == [3, 0], "without an end, the words are about the next speed"
    assert kinds(text.format(f" {end}")) == [0, 3]


@pytest.mark.parametrize("end", [";", "\n"])
def test_each_end_of_the_words_before_a_speed(end: str) -> None:
    text = "no draft: 33 tok/s without vision{} MTP: 52 tok/s"
    assert kinds(text.format("")) == [], "all words before the second speed are about it"
    assert kinds(text.format(end)) == [0, 3]


@pytest.mark.parametrize("end", [";", ",", ".", "\n"])
def test_each_end_of_a_sentence_after_a_speed(end: str) -> None:
    text = "33 tok/s baseline, 52 tok/s with MTP{} Without it I could not work"
    assert kinds(text.format("")) == [], "all words are about the second speed"
    assert kinds(text.format(end)) == [0, 3]


@pytest.mark.parametrize(
    "unit",
    [
        *("tok/s", "toks/s", "token/s", "tokens/s", "t/s", "T/s", "tok/sec", "tokens/second"),
        *("tokens per second", "tps", "TPS"),
    ],
)
def test_each_unit_of_a_speed(unit: str) -> None:
    assert kinds(f"MTP: 52 {unit}, without: 33 {unit}") == [3, 0]


@pytest.mark.parametrize("unit", ["ms/token", "ms / tok", "ms per token", "ms TPOT"])
def test_each_unit_of_a_time_per_token(unit: str) -> None:
    text = f"MTP: 9 {unit}, without: 14 {unit}"
    drafted, alone = read_pasted("-", text, GIVEN)
    assert (drafted.seconds, alone.seconds) == (pytest.approx(2 * 0.009), pytest.approx(0.014))


def test_words_after_an_unknown_speed_give_its_kind() -> None:
    assert kinds("MTP: 52 tok/s; here 33 tok/s baseline") == [3, 0]


def test_words_before_an_unknown_speed_in_its_sentence_give_its_kind() -> None:
    assert kinds("Qwen 21 tok/s with MTP. Without it I get 34 tok/s") == [3, 0]


def test_two_speeds_with_one_unit_are_read_in_a_sentence() -> None:
    assert kinds("went from 248 → 371 tps on one H200 w/ EAGLE3, bs=1. Spec decode is free lunch") == [0, 3]


@pytest.mark.parametrize(
    ("words", "length"),
    [
        ("MTP (1 token)", 1),
        ("MTP (2)", 2),
        ("EAGLE3 (4 draft tokens)", 4),
        ("MTP (83% accepted)", None),
        ("MTP (27B)", None),
        ("MTP (1 token) and MTP (2 tokens)", None),
    ],
)
def test_the_draft_length_behind_the_kind_of_draft_is_read(words: str, length: int | None) -> None:
    assert stated(f"{words}: 152 tok/s, without: 104 tok/s").gamma == length


def test_three_speeds_of_which_some_are_unknown_are_no_comparison() -> None:
    assert kinds("MTP: 52 tok/s; slower: 33 tok/s; 45 tok/s") == []


@pytest.mark.parametrize("name", ["ITL", "inter-token latency", "Inter token latency"])
def test_a_gap_between_outputs_is_no_time_per_token(name: str) -> None:
    text = f"{name} is 14 ms without MTP, 20 ms with it"
    refused("-: ITL: state the TPOT", read_pasted, "-", text, GIVEN)
    assert kinds(f"{text} (TPOT, I mean)") == [0, 3]


def test_a_speed_of_nothing_is_refused() -> None:
    text = "MTP 3: 0 tok/s, without: 33 tok/s"
    refused("-: tokens per second: must be above 0", read_pasted, "-", text, GIVEN)
