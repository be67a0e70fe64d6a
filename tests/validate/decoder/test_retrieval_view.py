"""Retrieval: which chunks its slots hold, and where new tokens go until it is built again."""

import torch

from perfmodel.validate.decoder import KVCache
from perfmodel.validate.decoder.kv.retrieval import RetrievalView
from tests.validate.decoder.views import (
    GROWTH,
    LAYERS,
    LENGTHS,
    assert_attends_to,
    best_pages,
    cache,
    grow,
    observed,
    query,
    view,
)


def by_means(source: KVCache, b: int, head: int) -> list[int]:
    return best_pages(source, b, head, lambda keys, q: keys.mean(0) @ q)


def test_retrieval_appends_replaces_and_rebuilds() -> None:
    """After r commits it is what it would be if built from scratch; between, it holds the new tokens in its
    budget.
    """
    source = cache(LENGTHS)
    draft_view = view("retrieval:20,every=4,chunk=4", source)
    assert isinstance(draft_view, RetrievalView)
    grow(source, draft_view, GROWTH[:2])
    assert draft_view.sums.shape[3] == 256 // 4 + 1
    assert draft_view.lengths.tolist() == [20, 15, 20]
    newest = source.k[0, 0, 0, 100:107]
    kept = draft_view.k[0, 0, 0, :20]
    assert all((kept == key).all(-1).any() for key in newest)
    draft_view.begin()
    for layer in range(LAYERS):
        draft_view.attend(layer, *query())
    grow(source, draft_view, GROWTH[2:4])
    fresh = view("retrieval:20,every=3,chunk=4", source)
    assert isinstance(fresh, RetrievalView)
    whole_pages = slice(0, -1)
    torch.testing.assert_close(draft_view.sums[:, :, :, whole_pages], fresh.sums[:, :, :, whole_pages])
    assert draft_view.lengths.tolist() == [20, 20, 17]
    assert_attends_to(draft_view, source, by_means)


def test_new_tokens_of_retrieval_replace_the_worst_chunks_and_leave_the_best() -> None:
    """Of 20 slots, the second sequence has two free ones, because its newest chunk has two of four tokens."""
    source = cache([100, 98, 96])
    draft_view = view("retrieval:20,every=9,chunk=4", source)
    assert isinstance(draft_view, RetrievalView)
    built = draft_view.kv.clone()
    grow(source, draft_view, [[3, 4, 0], [2, 0, 1]])
    new_slots = ([19, 18, 17, 16, 15], [18, 19, 17, 16], [19])
    for b, (first, slots) in enumerate(zip((100, 98, 96), new_slots, strict=True)):
        new = source.kv[:, :, b, :, first : first + len(slots)]
        torch.testing.assert_close(draft_view.kv[:, :, b, :, slots], new, rtol=0, atol=0)
        stay = [slot for slot in range((20, 18, 20)[b]) if slot not in slots]
        torch.testing.assert_close(draft_view.kv[:, :, b, :, stay], built[:, :, b, :, stay], rtol=0, atol=0)
    assert draft_view.lengths.tolist() == [20, 20, 20]


def test_the_best_chunks_of_retrieval_are_in_the_first_slots() -> None:
    """The newest chunk is first, whatever its score, and the others follow by theirs."""
    source = cache([100, 100, 100])
    draft_view = view("retrieval:20,every=9,chunk=4", source)
    assert isinstance(draft_view, RetrievalView)
    newest = source.k[:, :, :, 96:100]
    torch.testing.assert_close(draft_view.k[:, :, :, :4], newest, rtol=0, atol=0)
    latest = observed(1).queries[0, 0, :2, 0]
    sums = source.k[0, 0, 0, :96].unflatten(0, (24, 4)).sum(1)
    best = (latest @ sums.T).amax(0).argsort(descending=True)[:4]
    tokens = (best[:, None] * 4 + torch.arange(4)).flatten()
    torch.testing.assert_close(draft_view.k[0, 0, 0, 4:20], source.k[0, 0, 0, tokens], rtol=0, atol=0)
