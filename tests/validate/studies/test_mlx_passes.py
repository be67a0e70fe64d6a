"""MLX's passes: the prompt inside a rate, and servers far from the others of their source."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from perfmodel.operations import Array
from perfmodel.specs.published import MS
from perfmodel.validate.solving import Values
from perfmodel.validate.studies.llamacpp_passes import LlamaCppPasses
from perfmodel.validate.studies.mlx_passes import ChipPasses
from perfmodel.validate.studies.mlx_runs import ChipRun, mlx_runs
from perfmodel.validate.studies.public_runs import RunKind
from tests.refusals import refused


def run_of(row: str) -> ChipRun:
    return next(run for run in mlx_runs() if run.id == row)


WHOLE = run_of("mlx-001")
"""A speculation of 200 tokens behind a prompt of 30, which is in its rate."""
DECODING = replace(WHOLE, id="decoding", measured_as="mean rate of decoding")


def passes_of(*given: ChipRun) -> ChipPasses:
    class Passes(ChipPasses):
        @staticmethod
        def runs() -> Sequence[ChipRun]:
            return given

    return Passes()


def expected_of(passes: ChipPasses) -> Values:
    return {p.place: p.expected for p in passes.parameters}


def seconds_of(*given: ChipRun) -> Array:
    """Iteration and step of each run, with the expected constants."""
    passes = passes_of(*given)
    return np.exp(passes.predict(expected_of(passes))).reshape(-1, 2)


def test_a_token_has_a_share_of_the_prompt_where_the_whole_request_was_timed() -> None:
    assert WHOLE.prompt_share_per_token == 1 / 200
    assert run_of("mlx-003").prompt_share_per_token == 0.0, "decode alone"
    assert run_of("mlx-031").prompt_share_per_token == 0.0, "experts"


def test_a_draft_has_the_weights_that_its_row_states() -> None:
    asked = run_of("mlx-011").query_arguments()
    assert (asked["weights"], asked["draft_weights"]) == ("8bit", "4bit")


def test_a_time_with_the_prompt_inside_is_predicted_with_its_share_of_the_prompt() -> None:
    """A step has that of one of 200 tokens, an iteration that of each of its tokens. Each run has a prompt of
    its own.
    """
    short = replace(WHOLE, id="short", output_tokens=100.0)
    long = replace(WHOLE, id="long", input_tokens=3000.0)
    decoding, whole, of_short, of_long = seconds_of(DECODING, WHOLE, short, long)
    (iteration_s, step_s) = whole - decoding
    assert WHOLE.tokens_per_iteration is not None
    assert iteration_s == pytest.approx(WHOLE.tokens_per_iteration * step_s)
    assert of_short - decoding == pytest.approx(2 * (whole - decoding))
    assert decoding[1] < 200 * step_s < 10 * decoding[1], "a prompt of 30 tokens is a few steps"
    assert np.all(of_long - decoding > 20 * (whole - decoding))


def test_a_prompt_that_is_inside_must_be_known() -> None:
    refused("mlx_runs.csv: mlx-001: output_tokens: must be", passes_of, replace(WHOLE, output_tokens=None))
    refused("mlx_runs.csv: mlx-001: input_tokens: must be", passes_of, replace(WHOLE, input_tokens=None))


def test_the_fit_counts_a_server_far_from_the_others_of_its_source_less() -> None:
    """Five servers take 1.1 times the expected time, and a sixth five times: the five are predicted better
    than with all six in full.
    """
    models = ("qwen3-4b", "qwen3-8b", "qwen3-14b", "qwen3-32b", "llama-3.1-8b", "gemma-3-27b")
    plain = replace(DECODING, kind=RunKind.STEP, draft="", gamma=None, engine="mlx")
    runs = [replace(plain, id=model, model=model) for model in models]
    expected = passes_of(*runs)
    seconds = np.exp(expected.predict(expected_of(expected))) * [1.1, 1.1, 1.1, 1.1, 1.1, 5.0]
    passes = passes_of(*[replace(run, time_ms=s / MS) for run, s in zip(runs, seconds, strict=True)])
    every_row = np.ones(len(runs), dtype=bool)
    off = passes.off(passes.settled(every_row))[:5]
    off_in_full = passes.off(LlamaCppPasses.settled(passes, every_row))[:5]
    assert np.abs(off).max() < 0.02
    assert np.abs(off_in_full).min() > 0.15
