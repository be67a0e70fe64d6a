"""The parts of prompts that requests of a trace share."""

from collections.abc import Sequence

import numpy as np

from perfmodel.queueing.blocks import Shared
from perfmodel.queueing.trace_prefix import of_hashes, of_sessions
from tests.refusals import refused


def hashed(prompts: Sequence[int], hashes: Sequence[Sequence[int]]) -> Shared:
    """The shared parts of prompts with these hashes of blocks."""
    return of_hashes(np.array(prompts), hashes, "trace.jsonl")


def test_the_longest_list_of_hashes_gives_the_size_of_a_block() -> None:
    """Three hashes for 1,300 tokens are blocks of 512 tokens. The last block of a prompt is not full, unless
    the prompt ends with it.
    """
    found = hashed([1300, 1024, 600], [[1, 2, 3], [1, 2], [1, 4]])
    assert found.paths == [((1, 512), (2, 512), (3, 276)), ((1, 512), (2, 512)), ((1, 512), (4, 88))]
    assert found.keeps == [None] * 3
    assert hashed([1100], [[1, 2]]).paths == [((1, 1024), (2, 76))]


def test_a_hash_after_the_end_of_a_prompt_is_left_out() -> None:
    assert hashed([1536, 1024], [[1, 2, 3], [1, 2, 9]]).paths[1] == ((1, 512), (2, 512))


def test_hashes_may_leave_out_the_block_that_is_not_full() -> None:
    found = hashed([1024, 600], [[1, 2], [1]])
    assert found.paths == [((1, 512), (2, 512)), ((1, 512),)]


def test_a_full_block_without_a_hash_is_refused() -> None:
    says = r"trace.jsonl: hash_ids of request 2 by arrival: must be one for each of the 2 full blocks of 512"
    refused(says, hashed, [1536, 1100], [[1, 2, 3], [1]])
    assert hashed([1536, 1100], [[1, 2, 3], []]).paths[1] == (), "a request without hashes shares nothing"


def test_a_turn_begins_with_the_context_of_the_turn_before() -> None:
    """After 1,000 prompt tokens and 100 output tokens, 1,099 tokens are cached. The third prompt of the
    session is shorter than its context.
    """
    prompts = np.array([1000, 500, 1500, 700])
    outputs = np.array([100, 10, 50, 10])
    found = of_sessions(prompts, outputs, ["a", None, "a", "a"])
    node = found.keeps[0]
    assert found.keeps == [node, None, node, node]
    assert found.follows == [None, None, 0, 2]
    assert found.paths == [(), (), ((node, 1099),), ((node, 700),)]
    assert found.think_s == [0.0] * 4
