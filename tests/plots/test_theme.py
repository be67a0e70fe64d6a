"""What all pictures share: numbers on axes, labels of points, ticks, shades, legends and captions."""

from dataclasses import replace

import pytest

from perfmodel.answers.question import resolve
from perfmodel.plots import layout, palette, theme
from tests.plots.figures import ASK


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.25, "0.25"),
        (150.5, "150.5"),
        (1000, "1,000"),
        (1024, "1k"),
        (1536, "1.5k"),
        (1126.4, "1.1k"),
        (100_000, "100,000"),
        (131072, "128k"),
        (2**20, "1M"),
        (3 * 2**19, "1.5M"),
    ],
)
def test_a_count_has_a_suffix_only_where_that_is_exact(value: float, shown: str) -> None:
    assert theme.tokens(value) == shown


@pytest.mark.parametrize(
    ("points", "labels", "common"),
    [
        ([(1, 2048), (8, 2048)], ["batch 1", "batch 8"], ["context 2k"]),
        ([(8, 1024), (8, 2048)], ["context 1k", "context 2k"], ["batch 8"]),
        ([(1, 2048), (8, 1024)], ["batch 1, context 2k", "batch 8, context 1k"], []),
        ([(1, 2048)], ["batch 1, context 2k"], []),
        ([(8, 1024), (8, 1024)], ["batch 8, context 1k"] * 2, ["batch 8", "context 1k"]),
    ],
)
def test_points_are_labelled_by_what_differs(points, labels: list[str], common: list[str]) -> None:
    assert theme.point_labels(points) == (labels, common)


@pytest.mark.parametrize(
    ("span", "ticks"),
    [
        ((1, 8), [1, 2, 4, 8]),
        ((3, 9), [4, 8]),
        ((3, 7), [3, 7]),  # one power of two alone gives no scale
        ((5, 7), [5, 7]),
        ((1, 2**15), [1, 4, 16, 64, 256, 1024, 4096, 16384]),
        ((1, 2**9), [1, 4, 16, 64, 256]),  # ten powers are too many, so every second one is used
        ((1, 2**7), [1, 2, 4, 8, 16, 32, 64, 128]),
    ],
)
def test_ticks_are_powers_of_two(span: tuple[float, float], ticks: list[float]) -> None:
    assert theme.octaves(*span) == ticks


def test_shades_go_from_light_to_dark() -> None:
    def brightness(colour) -> float:
        return sum(colour[:3])

    several = [brightness(colour) for colour in palette.shades(4)]
    assert several == sorted(several, reverse=True)
    assert several[0] - several[-1] > 0.9
    (alone,) = palette.shades(1)
    assert several[-1] < brightness(alone) < several[0]


def test_a_legend_without_entries_is_not_drawn() -> None:
    (empty,) = layout.panels()
    assert not layout.legend_above(empty).get_visible()
    (drawn,) = layout.panels()
    drawn.plot([1, 2], [3, 4], label="a line")
    assert layout.legend_above(drawn).get_visible()


def test_a_caption_names_what_the_question_leaves_open() -> None:
    """What equals a default is named too where the model, and not the default, decides it."""
    hybrid = replace(ASK, model="qwen3-next-80b-a3b")
    assert "fp32 states" in theme.caption(resolve(hybrid))
    assert "bf16 states" in theme.caption(resolve(replace(hybrid, state_dtype="bf16")))
    assert "states" not in theme.caption(resolve(ASK))


def test_a_caption_names_the_draft_where_it_is_not_as_the_target() -> None:
    same = theme.caption(resolve(ASK))
    assert "; bf16 weights, bf16 KV; " in same
    assert "draft on" not in same
    other = theme.caption(resolve(replace(ASK, draft_weights="int8", draft_tp=2)))
    assert "; bf16 weights, bf16 KV (draft: int8 weights, bf16 KV); " in other
    assert "; draft on 2; " in other


def test_a_caption_says_where_the_acceptance_is_from_and_leaves_it_out_of_costs() -> None:
    scenario = resolve(ASK)
    assert theme.caption(scenario).startswith("acceptance α 0.81; ")
    assert "acceptance" not in theme.caption(scenario, acceptance=False)


def test_a_subtitle_names_the_model_the_devices_the_draft_and_its_length() -> None:
    scenario = resolve(ASK)
    about = "llama-3.1-8b on 8 × a100-sxm-80gb; draft self, streamingllm:512"
    assert theme.subject(scenario) == about
    assert theme.subject(scenario, 2) == f"{about}; γ 2"
    assert theme.subject(scenario, 0) == f"{about}; γ 0: baseline"


def test_lines_of_words_are_no_wider_than_the_picture() -> None:
    words = "a sentence with a_word_that_is_far_too_long_for_one_line,but_has_a_comma at its end"
    lines = layout.wrapped(words, 120.0)
    assert all(layout.width_of(line) <= 120.0 for line in lines)
    assert "".join(lines).replace(" ", "") == words.replace(" ", "")
    assert any(line.endswith(("line,", "_")) for line in lines)


@pytest.mark.parametrize(
    ("written", "kept"),
    [("(12.345678)", "(12.34)"), ("scale(0.012345 -0.012345)", "scale(0.012345 -0.012345)")],
)
def test_decimals_that_nobody_sees_are_cut_but_not_those_of_small_scales(written: str, kept: str) -> None:
    assert theme.LONG.sub(r"\1", written) == kept
