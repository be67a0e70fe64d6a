"""Batches and seats that serve less than a smaller number would."""

from types import SimpleNamespace

import numpy as np
import pytest

import perfmodel as pm
from perfmodel.answers.question.smaller_batch import better, of_batch


def test_a_batch_that_a_smaller_one_beats_says_so() -> None:
    """A captured graph of 16 sequences runs 9."""
    question = {"model": "ling-2.6-flash", "hardware": "h100", "context": 512, "gamma": 0, "tp": 2}
    eight, nine = (pm.whatif(**question, engine="trtllm", batch=batch) for batch in (8, 9))
    assert 8 / eight.ar_tpot_s > 9 / nine.ar_tpot_s
    (note,) = [each for each in nine.warnings if "a batch of" in each]
    assert note.startswith("a batch of 8 serves more without a draft than 9")
    assert note.endswith(
        "a step can take longer where the next size of CUDA graph or another block of a kernel begins"
    )
    assert not any("a batch of" in each for each in eight.warnings)


def test_a_server_with_more_seats_than_are_fastest_says_so() -> None:
    """A captured graph of 16 sequences runs 9."""
    lengths = {"input_len": 8, "output_len": 1000, "max_concurrency": 2000, "closed_form": True}
    server = {"model": "ling-2.6-flash", "hardware": "h100", "tp": 4, "engine": "trtllm", "gamma": 0}
    eight, nine = (pm.traffic(**server, **lengths, max_num_seqs=seats) for seats in (8, 9))
    assert eight.rows[0].output_tokens_per_s > nine.rows[0].output_tokens_per_s
    (note,) = [each for each in nine.warnings if "a batch of" in each]
    assert note.startswith("a batch of 8 serves more without a draft than 9")
    assert not any("a batch of" in each for each in eight.warnings)
    few = pm.traffic(**server, **lengths | {"max_concurrency": 8}, max_num_seqs=9)
    assert not any("a batch of" in each for each in few.warnings)
    just_enough = pm.traffic(**server, **lengths | {"max_concurrency": 9}, max_num_seqs=9)
    assert note in just_enough.warnings, "nine clients can use all nine seats"


@pytest.mark.parametrize(("fastest", "said"), [(11, True), (15, True), (17, False), (32, True)])
def test_all_small_batches_and_multiples_of_blocks_are_tried(fastest: int, said: bool) -> None:
    """A step takes twice as long with more sequences than `fastest`. 17 is neither small nor a multiple."""
    batch = 2.0 * fastest - 1.0
    stepped = SimpleNamespace(target_pass_s=lambda batches, *_: np.where(batches <= fastest, 1.0, 2.0))
    notes = [*of_batch(stepped, batch, 1000.0)]
    assert bool(notes) is said
    assert all(note.startswith(f"a batch of {fastest} serves more") for note in notes)


@pytest.mark.parametrize(("most", "said"), [(100.09, False), (100.11, True)])
def test_a_gain_of_one_in_a_thousand_is_mentioned(most: float, said: bool) -> None:
    assert bool([*better(np.array([7.0, 8.0]), np.array([most, 100.0]))]) is said
