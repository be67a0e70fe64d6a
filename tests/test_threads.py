"""The page of public threads: its rows are consistent, and it shows the misses."""

from perfmodel.specs.published import read_published
from tests.scripts import of_docs

PAGE = of_docs("threads")


def test_rows_are_consistent() -> None:
    rows = read_published("threads", PAGE.Thread)
    assert len({(row.thread, row.gamma) for row in rows}) == len(rows)
    for row in rows:
        assert row.measured > 0.0
        assert row.batch >= 1
        if row.predicted_low is not None:
            assert row.predicted_low <= row.predicted <= row.predicted_high
        assert row.verdict != "wrong" or row.why


def test_the_table_has_links_and_misses() -> None:
    text = PAGE.threads()
    assert "[sgl-project/sglang#14824](https://github.com/sgl-project/sglang/issues/14824)" in text
    assert "| 1.14x (0.85 to 1.52) | 0.57x | partly |" in text
    assert text.count("| wrong |") == 8
    assert (
        "of these 21 configurations, the predicted and the measured speedup are on the same side of 1.0x"
        in text
    )
