"""Served runs replayed: the page is what the study writes, and short runs are met."""

import pytest

from perfmodel.validate.studies.traffic import PAGE, STUDIES, compare, rows, runs


@pytest.mark.skipif(not PAGE.exists(), reason="no checkout")
def test_the_page_is_what_the_study_writes():
    """Of the study whose runs are shortest, without drafts; the others take the same path."""
    baseline = [run for run in runs(STUDIES[1]) if run.steps == 0]
    found = {measured: [compare(run, measured) for run in baseline] for measured in (True, False)}
    for cells in rows(found)[4:6]:
        assert f"| {' | '.join(cells)} |" in PAGE.read_text(encoding="utf-8")


def test_a_run_with_drafts_is_met():
    run = next(run for run in runs(STUDIES[0]) if (run.steps, run.concurrency) == (7, 16))
    for measured, allowed in ((True, 0.06), (False, 0.15)):
        ratios = compare(run, measured).ratios
        for name in ("tpot_mean_ms", "output_tokens_per_s", "ttft_mean_ms"):
            assert ratios[name] == pytest.approx(1, abs=allowed)
