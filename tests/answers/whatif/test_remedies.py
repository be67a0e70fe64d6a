"""A switch that would turn the verdict is named with its figure, if the engine runs it."""

import pytest

from perfmodel.answers.point.remedies import remedies
from perfmodel.answers.point.whatif import whatif
from perfmodel.answers.question import Query, resolve
from perfmodel.errors import InputError

UNSPLIT = Query("qwen3-30b-a3b", "rtx-4090", 1, 32_768, tp=2, weights="fp8")


def test_a_switch_that_turns_the_verdict_is_named_with_its_figure() -> None:
    a = whatif(UNSPLIT)
    assert a.verdict == "likely_does_not_pay"
    remedy = a.remedies[0]
    assert remedy.switch == "--attention-backend flashinfer"
    with_it = whatif(UNSPLIT, attention_backend="flashinfer", draft=a.query.draft)
    assert remedy.gamma == with_it.query.gamma
    assert remedy.speedup == pytest.approx(with_it.speedup)
    assert remedy.speedup_interval == pytest.approx(with_it.speedup_interval)
    assert with_it.remedies == ()


@pytest.mark.parametrize(("factor", "named"), [(1.11, True), (1.09, False)])
def test_an_uncertain_switch_must_raise_the_speedup_by_a_tenth(factor: float, named: bool) -> None:
    remedy = whatif(UNSPLIT).remedies[0]
    assert not remedy.surely_pays
    others = remedies(UNSPLIT, resolve(UNSPLIT), remedy.speedup / factor)
    assert (remedy.switch in {other.switch for other in others}) is named


def test_no_switch_is_a_backend_that_does_not_run_the_models_heads() -> None:
    """FlashInfer has no attention sinks on Ada, and has them on Blackwell (vLLM 0.32, supports_sink)."""
    at = {"model": "gpt-oss-20b", "hardware": "rtx-4090", "batch": 4, "context": 65536, "draft": "eagle3"}
    assert not any("flashinfer" in remedy.switch for remedy in whatif(**at).remedies)
    with pytest.raises(InputError, match="which has attention sinks, on rtx-4090"):
        whatif(**at, attention_backend="flashinfer")
    assert whatif(**at | {"hardware": "rtx-pro-6000"}, attention_backend="flashinfer").speedup
