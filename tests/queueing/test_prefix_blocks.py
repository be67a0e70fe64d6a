"""Blocks of a prefix cache by hand: which ones requests share, and which ones are evicted."""

import pytest

from perfmodel.queueing.blocks import BlockCache, Shared
from perfmodel.queueing.cache import PrefixCache
from perfmodel.queueing.prefix import HitLaw
from perfmodel.queueing.request import QueuedRequest


def test_the_least_recently_used_blocks_go_first_and_a_request_lets_go_of_its_last_first() -> None:
    """Blocks of 10. Two requests of 100 tokens share 40; a session goes on after 60."""
    beginnings = [((0, 40),), ((0, 40),), (), ((3, 60),)]
    shared = Shared(beginnings, [None, None, 3, 3])
    blocks = BlockCache(HitLaw(10), shared)
    assert blocks.find(0, 100) == (0, 100)
    blocks.enter(0, 100, 0, 100)
    assert blocks.find(1, 100) == (40, 60)  # held by the first
    blocks.enter(1, 100, 40, 60)
    assert blocks.leave(0, 20) == 80  # its own 60 and 20; the shared 40 stay
    assert blocks.leave(1, 0) == 100
    assert list(blocks.idle.values()) == [80, 60, 40]
    assert blocks.find(0, 100) == (40, 100)  # idle blocks take room again
    blocks.enter(2, 50, 0, 50)
    assert blocks.leave(2, 10) == 60
    assert blocks.find(3, 70) == (60, 70)
    blocks.trim(240 - 95)  # 95 too many: the first's whole 80, then two blocks off the end of the second's
    assert list(blocks.idle.values()) == [40, 40, 60]
    blocks.trim(95)  # 45 too many
    assert list(blocks.idle.values()) == [30, 60]
    assert blocks.find(0, 100)[0] == 30
    assert blocks.find(3, 70)[0] == 60
    assert blocks.idle_tokens == 90


def test_a_short_prompt_does_not_shorten_an_idle_prefix() -> None:
    """Of 100 shared tokens the second of three prompts has 40."""
    beginnings = [((0, 100),), ((0, 40),), ((0, 100),)]
    blocks = BlockCache(HitLaw(10), Shared(beginnings, [None] * 3))
    hits = []
    for request, prompt in ((0, 120), (1, 41), (2, 120)):
        hit, needed = blocks.find(request, prompt)
        blocks.enter(request, prompt, hit, needed)
        hits.append((hit, needed, blocks.leave(request, 5)))
    assert hits == [(0, 120, 125), (40, 101, 106), (100, 120, 125)]
    assert blocks.idle_tokens == 100 + 25 + 6 + 25
    assert sum(blocks.idle.values()) == blocks.idle_tokens


def test_a_dropped_block_is_computed_into_blocks_of_its_own() -> None:
    shared = Shared([((0, 40),)] * 2, [None, None])
    blocks = BlockCache(HitLaw(10, 1), shared)
    blocks.enter(0, 100, *blocks.find(0, 100))
    assert blocks.find(1, 100) == (30, 70)
    blocks.enter(1, 100, 30, 70)
    assert blocks.leave(1, 5) == 75
    assert blocks.leave(0, 0) == 100
    assert blocks.hit_rate == 30 / 200


def test_a_preempted_request_leaves_its_blocks_twice() -> None:
    blocks = BlockCache(HitLaw(10), Shared([()], [None]))
    rounds = ((100, 50, 150, False), (150, 20, 320, True))
    for prompt, decoded, idle, again in rounds:
        blocks.enter(0, prompt, *blocks.find(0, prompt), again)
        assert blocks.read == 100  # once
        assert blocks.leave(0, decoded, keep=False) == prompt + decoded
        assert blocks.idle_tokens == idle
        assert sum(blocks.idle.values()) == idle
    blocks.trim(0)
    assert blocks.idle_tokens == 0
    assert len(blocks.idle) == 0


@pytest.mark.parametrize(("preempted", "hit_rate"), [(True, 40 / 200), (False, 80 / 320)])
def test_the_prompt_of_a_preempted_request_counts_once(preempted: bool, hit_rate: float) -> None:
    """Two requests share 40 of 100 tokens. The second comes back with 20 decoded ones, or a third comes."""
    shared = Shared([((0, 40),)] * 2, [None, None])
    cache = PrefixCache(1000.0, HitLaw(10), shared)
    for number, prompt, again in ((0, 100, False), (1, 100, False), (1, 120, preempted)):
        request = QueuedRequest(number, prompt, 60, 60.0, 1.0, 0.0, late=False, preempted=again)
        request.hit_tokens, needed_tokens = cache.find(request)
        cache.enter(request, needed_tokens)
        if number:
            cache.leave(request, 0.0, keep=False)
    assert cache.hit_rate == hit_rate


def test_a_prompt_of_several_nodes_loses_its_end_first_and_hits_up_to_the_first_gap() -> None:
    """Three shared nodes of 10 tokens; 20 of the 30 are evicted after a request of 35."""
    path = ((0, 10), (1, 10), (2, 10))
    blocks = BlockCache(HitLaw(10), Shared([path, ((2, 10),), path], [None] * 3))
    blocks.enter(0, 35, *blocks.find(0, 35))
    assert blocks.leave(0, 0) == 35
    assert list(blocks.idle) == [-1, 2, 1, 0]  # the request's own 5 tokens first
    blocks.trim(10)
    assert list(blocks.idle) == [0]
    blocks.enter(1, 15, *blocks.find(1, 15))  # computes the last node again
    assert blocks.find(2, 35) == (10, 25)  # without the middle one, the last one is no hit
