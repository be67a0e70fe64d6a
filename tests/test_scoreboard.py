"""The scoreboard: its data have sources and agree with each other, and it shows who is ahead."""

import pytest

from perfmodel.specs import load_gpu, load_model
from perfmodel.specs.published import read_published
from tests.scripts import of_docs

BOARD = of_docs("scoreboard")


def test_every_shared_row_has_a_source_and_is_answered() -> None:
    rows = read_published("scoreboard", BOARD.Shared)
    assert len({row.id for row in rows}) == len(rows) == len(BOARD.answered())
    for row in rows:
        assert len(row.source) > 8
        assert load_model(row.model).name == row.model
        assert load_gpu(row.hardware)
        assert row.measured > 0 < row.answer
        assert (row.kind == "speedup") == (row.draft is not None) == (row.iteration_over_step is not None)
        assert row.simulator_version


@pytest.mark.parametrize(
    ("figure", "subset", "within"),
    [
        ("step", "nvfp4", lambda row: row.kind == "step" and row.weights == "nvfp4"),
        ("step", "17 and more clients", lambda row: row.kind == "step" and row.batch >= 17),
        ("speedup", "nvfp4", lambda row: row.kind == "speedup" and row.weights == "nvfp4"),
        ("speedup", "int4", lambda row: row.kind == "speedup" and row.weights != "nvfp4"),
    ],
)
def test_the_errors_of_others_follow_from_their_answers(figure, subset, within) -> None:
    """Of the groups whose rows are all bundled."""
    (stated,) = (
        e
        for e in read_published("scoreboard_errors", BOARD.Errors)
        if (e.figure, e.subset) == (figure, subset)
    )
    rows = [a for a in BOARD.answered() if within(a.row)]
    assert len(rows) == stated.rows
    assert BOARD.error_of(a.other for a in rows) == pytest.approx(stated.aisimulate, abs=0.06)


def test_the_page_shows_wins_of_both() -> None:
    unseen = BOARD.unseen()
    assert "| speedup | nvfp4 | 16 | 1 | 29.1 | **15.9** |" in unseen
    assert "| step | 17 and more clients | 5 |  | 29.2 | **9.1** |" in unseen
    assert "| step | all rows that both tools answer | 92 | 12 | **24.9** | 36.9 |" in unseen
    assert "KV offload" in BOARD.missing()
    assert "this version" in BOARD.releases()
