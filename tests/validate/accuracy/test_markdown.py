"""Tables of Markdown, as they stand in the pages."""

from perfmodel.validate.accuracy.markdown import table


def test_text_stands_left_and_figures_right() -> None:
    assert table(("model", "rows", "source"), [("tiny", "12", "paper")], text_columns=(0, 2)) == [
        "| model | rows | source |",
        "| :-- | --: | :-- |",
        "| tiny | 12 | paper |",
    ]
    assert table(("model", "rows"), [])[1] == "| :-- | --: |", (
        "the first column is text unless said otherwise"
    )


def test_a_bar_in_a_cell_ends_no_cell() -> None:
    assert table(("a|b",), [("c|d",)]) == [r"| a\|b |", "| :-- |", r"| c\|d |"]
