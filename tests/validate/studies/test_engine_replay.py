"""How much wider the errors of engines are for contexts and verifications beyond those that were measured."""

from math import e, hypot
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from perfmodel.specs import Z
from perfmodel.validate.studies import engine_replay
from perfmodel.validate.studies.engine_replay import HeldOutReplay
from perfmodel.validate.studies.held_out_errors import HeldOutErrors


def replay_of(**rows: tuple[float, float, float]) -> HeldOutReplay:
    """Rows of an engine each: their context, their verified tokens and the log error of their ratio."""
    of_rows: Any = tuple(
        SimpleNamespace(engine=engine, context=context, tokens=tokens, study=engine)
        for engine, (context, tokens, _) in rows.items()
    )
    errors = HeldOutErrors(np.array([off for *_, off in rows.values()]), [*rows], [*rows])
    return HeldOutReplay({}, {"context": errors, "width": errors, "draft": errors}, of_rows)


def test_the_error_of_a_long_context_is_one_per_e_fold_beyond_the_short_ones() -> None:
    """0.2 at half an e-fold and at two e-folds beyond 1000 tokens: 0.4 and 0.1. What is up to 1024 tokens
    long has no part in it.
    """
    replay = replay_of(a=(500, 1, 0.9), b=(1000, 1, 0.9), c=(1000 * e**0.5, 1, 0.2), d=(1000 * e**2, 1, -0.2))
    stated = replay.unseen_context()
    assert stated.log_rms == pytest.approx(((0.4**2 + 0.1**2) / 2) ** 0.5, abs=5e-4)
    assert stated.source == "ratios of contexts above 1024 tokens left out whole"


def test_the_error_of_a_wide_verification_is_one_per_e_fold_and_of_more_than_512_tokens() -> None:
    """0.3 at one e-fold beyond 200 tokens, the widest that is not wide. 300 and 512 tokens do not count."""
    replay = replay_of(a=(1, 200, 0.9), b=(1, 300, 0.9), c=(1, 512, 0.9), d=(1, 200 * e, 0.3))
    stated = replay.unseen_width()
    assert stated.log_rms == pytest.approx(0.3, abs=5e-4)
    assert stated.source == "ratios of verifications of more than 256 tokens left out whole"


def test_kinds_of_drafts_count_alike_in_the_error_of_an_unseen_one() -> None:
    replay = replay_of(a=(1, 1, 0.1), b=(1, 1, 0.3))
    assert replay.unseen_draft().log_rms == pytest.approx(0.05**0.5, abs=5e-4)


def test_a_row_wider_than_the_other_folds_of_its_engine_has_a_wider_interval() -> None:
    """Models a, b and c of vLLM and d of SGLang verify 100, 100 e, 50 and 800 tokens. Only b is wider than
    the other models of its engine: one e-fold. SGLang has no other model, so nothing says how wide is far.
    """
    off = np.array([0.1, 0.1, 0.1, 0.3])
    engines = ["vllm", "vllm", "vllm", "sglang"]
    rows: Any = tuple(
        SimpleNamespace(engine=engine, study=study, tokens=tokens)
        for engine, study, tokens in zip(engines, "abcd", (100.0, 100.0 * e, 50.0, 800.0), strict=True)
    )
    errors = HeldOutErrors(off, engines, [*"abcd"])
    replay = HeldOutReplay({}, {"model": errors, "width": errors}, rows)
    width = replay.widened("model", np.full(4, 0.2))
    further = Z * replay.unseen_width().deviation
    assert width == pytest.approx([0.2, hypot(0.2, further), 0.2, 0.2])


def test_devices_without_a_fold_are_replayed_with_the_constants_of_all_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Relations without folds of their own have those of devices, and each kind of ratio has its own."""
    met: dict[str, Any] = {}
    rows: Any = SimpleNamespace(rows=(SimpleNamespace(hardware="h200", engine="vllm"),))
    ratios: Any = SimpleNamespace(rows=(SimpleNamespace(engine="vllm", group="g"),))

    def replayed(of: Any, key: Any, folds: Any) -> Any:
        met[key] = folds
        return np.zeros(1)

    steps = {name: fold.key for name, fold in engine_replay.STEP_FOLDS.items()}
    kinds = {name: fold.key for name, fold in engine_replay.RATIO_FOLDS.items()}
    monkeypatch.setattr(engine_replay, "rows_of", lambda relation: rows)
    monkeypatch.setattr(engine_replay, "group_of", lambda row: ("vllm", "m", "h200", 1))
    monkeypatch.setattr(engine_replay, "Iterations", lambda whole: ratios)
    monkeypatch.setattr(engine_replay, "replay", replayed)
    own = ("seen", "version", "model", "gpu")
    replay = engine_replay.replayed(
        {
            "steps": "all rows",
            "step_folds": {name: {name: "without it"} for name in own},
            "ratio_folds": {name: name for name in kinds},
        }
    )
    assert met[steps["model"]] == {"h200": "all rows", "model": "without it"}
    for relation in ("gpu", "transferred", "maker"):
        assert met[steps[relation]] == {"h200": "all rows", "gpu": "without it"}, relation
    assert [met[kinds[name]] for name in kinds] == [*kinds]
    assert len(replay.steps["seen"].off) == 0, "one degree only"
    assert len(replay.steps["model"].off) == 1
