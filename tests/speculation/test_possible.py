"""No answer is impossible: more work never takes less time, whatever device, calibration and draft.

The bounds are exact. A verification does all that a baseline step does, so that it is never faster; a speedup
is then at most the tokens that an iteration gains, and at most 1 where nothing is accepted.
"""

from dataclasses import replace
from itertools import islice, product

import numpy as np
import pytest

from perfmodel.answers.question import Query, resolve
from perfmodel.errors import InputError
from perfmodel.operations import Array
from perfmodel.specs import files
from perfmodel.specs.calibrations.loading import load_bundled
from perfmodel.speculation import Acceptance, Passes, Scenario

MODELS = {
    "llama-3.1-8b": (1, 2),
    "qwen3-32b": (1, 4),
    "llama-3.1-405b": (8,),
    "gemma-3-27b": (1, 2),
    "qwen3-30b-a3b": (1, 4),
    "gpt-oss-120b": (1, 2),
    "minimax-m2": (4,),
    "deepseek-v3": (8,),
    "deepseek-v3.2": (8,),
    "qwen3-next-80b-a3b": (2,),
}
"""Model -> degrees: dense, windows, experts, latents, an indexer, recurrent layers."""
DRAFTS = (
    *(("self", method) for method in ("streamingllm:512", "snapkv:2049", "quest:1024", "full")),
    ("eagle", "streamingllm:64"),
    *((word, None) for word in ("ngram", "eagle:features=3", "medusa:heads=16", "dflash", "mtp:modules=1")),
)
FORMATS = ((None, None), ("fp8", "fp8"), ("fp8-block", None), ("int4", "bf16"))
BATCHES = np.array(
    [*range(1, 18), 24, 25, 31, 32, 33, 47, 48, 49, 63, 64, 65, 96, 127, 128, 129, 256, 257, 300, 512, 600.0]
)
CONTEXTS = np.array(
    [1, 16, 49, 70, 127, 128, 129, 511, 512, 513, 2048, 2049, 2050, 8192, 32768, 65536, 131072, 1e6]
)
GAMMAS = np.arange(17)
ROUNDING = 1e-12


def calibrations() -> tuple[tuple[str, str], ...]:
    """(device, calibration) of all that ship, and each of a device on another one of its kind."""
    bundled = [(c.gpu, name) for name in files.bundled_names("calibrations") if (c := load_bundled(name)).gpu]
    ideal = [(device, "ideal") for device in ("a100-sxm-80gb", "h100-sxm-80gb", "mi300x-192gb")]
    return (
        *bundled,
        *ideal,
        ("h100-pcie-80gb", "h100-sxm-80gb.vllm"),
        ("h20-sxm-96gb", "h100-sxm-80gb.vllm"),
    )


def falls(values: Array, axis: int, shape: tuple[int, ...]) -> int:
    """Places along an axis where what comes next is less, by more than rounding."""
    values = np.moveaxis(np.broadcast_to(values, shape), axis, 0)
    return int(np.count_nonzero(values[1:] < values[:-1] * (1 - ROUNDING)))


def impossible(scenario: Scenario) -> dict[str, int]:
    """How many points break each bound, over all batches, contexts and gammas of this file."""
    last = scenario.draft.max_gamma
    gammas = GAMMAS if last is None else GAMMAS[: last + 1]
    batch = BATCHES[:, None]
    passes = Passes(scenario, batch, CONTEXTS, gammas)
    times = passes.times(scenario)
    shape = (len(gammas), len(BATCHES), len(CONTEXTS))
    drafted = np.broadcast_to(times.draft_s, shape) * passes.drafted
    nothing = replace(scenario, acceptance=Acceptance.from_alpha(0.0))
    fast = passes.speedups(scenario)
    never = Passes(nothing, batch, CONTEXTS, gammas).speedups(nothing)
    falling = {f"T_V falls along axis {axis}": falls(times.verify_s, axis, shape) for axis in range(3)}
    falling |= {f"drafting falls along axis {axis}": falls(drafted, axis, shape) for axis in range(3)}
    falling["T_V below T_T"] = int(np.count_nonzero(times.verify_s < times.target_s))
    falling["speedup above the tokens"] = int(np.count_nonzero(fast > passes.gained.reshape(-1, 1, 1)))
    falling["speedup of nothing"] = int(np.count_nonzero(never > 1.0))
    return {what: n for what, n in falling.items() if n}


def check(every: int, start: int = 0) -> int:
    """Points looked at, of every so many questions; fails with the first that break a bound."""
    models = [(model, tp) for model, degrees in MODELS.items() for tp in degrees]
    cases = islice(product(calibrations(), models, DRAFTS, FORMATS), start, None, every)
    points = 0
    wrong = {}
    for (device, calibration), (model, tp), (draft, method), (weights, kv) in cases:
        query = Query(
            model,
            device,
            1,
            4096,
            3,
            tp=tp,
            draft=draft,
            draft_kv=method,
            alpha=0.7,
            calibration=calibration,
            weights=weights,
            kv_dtype=kv,
        )
        try:
            scenario = resolve(query)
            scenario.target_pass_s(1.0, 1.0)
        except InputError:
            continue  # no such kernel, link, or draft
        points += len(BATCHES) * len(CONTEXTS) * len(GAMMAS)
        if broken := impossible(scenario):
            wrong[query] = broken
    assert not wrong, f"{len(wrong)} questions, such as {list(wrong.items())[:3]}"
    return points


def test_no_sampled_answer_is_impossible() -> None:
    assert check(every=293, start=5) > 150_000


@pytest.mark.slow
def test_no_answer_of_twenty_million_is_impossible() -> None:
    assert check(every=3) > 20_000_000
