"""Each draft cache against its definition, written out, and against what its twin in the engine predicts."""

import math
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from perfmodel.kv import KVLayout, parse_kv
from perfmodel.validate.decoder import KVCache, Model, Request, backends, kv, make_decoder, start_random
from perfmodel.validate.decoder.kv.base import Packed
from perfmodel.validate.decoder.kv.quantized import QuantizedView
from perfmodel.validate.decoder.kv.retrieval import RetrievalView
from perfmodel.validate.decoder.pointwise import Pointwise, Rotary
from perfmodel.validate.decoder.runner import Observed, Runner
from perfmodel.validate.harness.point_runner import DecoderRun, Snapshot
from tests.validate.decoder.methods import METHODS

LAYERS = 2
BATCH = 3
HEADS = 4
KV = 2
D = 8
GAMMA = 4
NEW = 40


def cache(lengths: list[int], dtype: torch.dtype = torch.float64) -> KVCache:
    filled = KVCache((LAYERS, BATCH, KV, 256, D), torch.device("cpu"), dtype)
    generator = torch.Generator().manual_seed(0)
    filled.k.normal_(generator=generator)
    filled.v.normal_(generator=generator)
    filled.set_lengths(torch.tensor(lengths), max(lengths))
    return filled


def observed(window: int, dtype: torch.dtype = torch.float64) -> Observed:
    generator = torch.Generator().manual_seed(1)
    return Observed(
        torch.randn(LAYERS, BATCH, HEADS, window + 1, D, generator=generator, dtype=dtype), window
    )


def view(method: str, source: KVCache) -> kv.View:
    chosen = backends.choose("auto", torch.device("cpu"), source.k.dtype)
    model: Any = SimpleNamespace(pointwise=Pointwise(), dtype=source.k.dtype)
    runner = Runner(model, source, chosen, Rotary(torch.ones(D // 2), 1.0))
    built = kv.view(parse_kv(method), runner, NEW, GAMMA)
    built.build(observed(built.window, source.k.dtype))
    return built


def query(n: int = 1, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(2)
    return tuple(torch.randn(BATCH, h, n, D, generator=generator, dtype=dtype) for h in (HEADS, KV, KV))  # type: ignore[return-value]


def attended(draft_view: kv.View, layer: int = 1) -> Tensor:
    draft_view.begin()
    return draft_view.attend(layer, *query())


def by_selection(source: KVCache, chosen: Callable[[KVCache, int, int], list[int]], layer: int = 1) -> Tensor:
    """Attention of `query` over chosen(source, sequence, kv head) and the new token."""
    q, new_k, new_v = query()
    out = torch.empty_like(q)
    for b in range(BATCH):
        for h in range(HEADS):
            head = h // (HEADS // KV)
            index = torch.tensor(sorted(chosen(source, b, head)), dtype=torch.int64)
            keys = torch.cat((source.k[layer, b, head, index], new_k[b, head]))
            values = torch.cat((source.v[layer, b, head, index], new_v[b, head]))
            scores = keys @ q[b, h, 0] / math.sqrt(D)
            out[b, h, 0] = scores.softmax(0) @ values
    return out.transpose(1, 2).flatten(2)


def grow(source: KVCache, draft_view: kv.View, counts: list[list[int]]) -> None:
    """Commit, as after verifications; the tokens' keys lie in the cache already."""
    for count in counts:
        start = source.lengths.clone()
        source.advance(torch.tensor(count), GAMMA + 1)
        draft_view.commit(start, torch.tensor(count))
        draft_view.refresh()


GROWTH = [[5, 1, 0], [2, 5, 3], [0, 0, 0], [5, 5, 5], [1, 4, 2]]
LENGTHS = [100, 9, 41]


def window(source: KVCache, b: int, head: int) -> list[int]:
    """Four sinks and the last 16 tokens."""
    length = int(source.lengths[b])
    return [t for t in range(length) if t < 4 or t >= length - 16]


def voted(source: KVCache, b: int, head: int, size: int = 8, kernel: int = 5, budget: int = 24) -> list[int]:
    """What the prompt's last tokens vote for, and all since."""
    length = LENGTHS[b]
    seen = observed(size).queries
    votes = np.zeros(LENGTHS[b])
    for h in (2 * head, 2 * head + 1):
        for slot in range(size):
            query_positions = length - size + slot
            past = source.k[1, b, head, : query_positions + 1]
            scores = past @ seen[1, b, h, slot] / math.sqrt(D)
            votes[: query_positions + 1] += scores.softmax(0).numpy()
    prefix = max(0, length - size)
    votes = np.pad(votes[:prefix], kernel // 2)  # what the window's own tokens got does not spill over
    pooled = [votes[t : t + kernel].sum() for t in range(prefix)]
    prefix = np.argsort(pooled)[::-1][: budget - size]
    return [*prefix, *range(length - size, int(source.lengths[b]))]


def heaviest(source: KVCache, b: int, head: int) -> list[int]:
    """The 12 tokens of the largest weights."""
    q, *_ = query()
    keys = source.k[1, b, head, : source.lengths[b]]
    of_the_group = q[b, 2 * head : 2 * head + 2, 0]
    scores = of_the_group @ keys.mT / math.sqrt(D)
    votes = scores.softmax(-1).sum(0)
    return votes.topk(min(12, len(keys))).indices.tolist()


def best_pages(
    source: KVCache, b: int, head: int, score: Callable[[Tensor, Tensor], Tensor], page: int = 4
) -> list[int]:
    """The newest page, and four more: those of the highest score of their keys by either query head."""
    q = query()[0]
    length = int(source.lengths[b])
    starts = range(0, length, page)
    pages = [list(range(start, min(start + page, length))) for start in starts]

    def of(page: list[int]) -> float:
        keys = source.k[1, b, head, page]
        of_the_group = q[b, 2 * head : 2 * head + 2, 0]
        return max(float(score(keys, query)) for query in of_the_group)

    best = sorted(pages[:-1], key=of, reverse=True)[:4]
    return [token for page in [*best, pages[-1]] for token in page]


def by_bounds(source: KVCache, b: int, head: int, page: int = 4) -> list[int]:
    def bound(keys: Tensor, q: Tensor) -> Tensor:
        least = q * keys.amin(0)
        most = q * keys.amax(0)
        return torch.maximum(least, most).sum()

    return best_pages(source, b, head, bound, page)


def by_means(source: KVCache, b: int, head: int) -> list[int]:
    return best_pages(source, b, head, lambda keys, q: keys.mean(0) @ q)


@pytest.mark.parametrize(
    ("method", "chosen", "times"),
    [
        ("streamingllm:20,sinks=4", window, 4),
        ("snapkv:24,window=8,kernel=5", voted, 1),
        ("topk:12", heaviest, 1),
        ("quest:20,page=4", by_bounds, 1),
    ],
)
def test_a_view_is_its_definition(
    method: str, chosen: Callable[[KVCache, int, int], list[int]], times: int
) -> None:
    source = cache(LENGTHS)
    draft_view = view(method, source)
    for growth in ([], GROWTH * times):
        grow(source, draft_view, growth)
        torch.testing.assert_close(attended(draft_view), by_selection(source, chosen), rtol=1e-12, atol=1e-12)


def test_pages_of_a_full_cache_whose_last_is_not_full() -> None:
    source = cache([255, 9, 256])
    wanted = by_selection(source, partial(by_bounds, page=5))
    torch.testing.assert_close(attended(view("quest:25,page=5", source)), wanted, rtol=1e-12, atol=1e-12)


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
    torch.testing.assert_close(attended(draft_view), by_selection(source, by_means))


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


@pytest.mark.parametrize(
    ("method", "slots", "bounds", "lengths"),
    [
        ("streamingllm:20,sinks=4", 20, (20, 20, 20), [20, 20, 20]),
        ("snapkv:24,window=8", 24 + NEW + GAMMA + 1, (24, 49, 41), [37, 39, 34]),
        ("retrieval:20,every=9,chunk=4", 20, (20, 20, 20), [20, 20, 20]),
        ("snapkv:200,window=8", 200 + NEW + GAMMA + 1, (100, 125, 113), [113, 113, 106]),
        ("streamingllm:200", 200, (100, 125, 125), [113, 113, 106]),
    ],
)
def test_the_bounds_of_a_view(method: str, slots: int, bounds: tuple[int, ...], lengths: list[int]) -> None:
    """As built; five tokens further after each iteration; and what the source's lengths bring down again."""
    source = cache([100, 98, 96])
    draft_view = view(method, source)
    assert isinstance(draft_view, Packed)
    view_bounds = [draft_view.bound]
    grow(source, draft_view, GROWTH)
    view_bounds.append(draft_view.bound)
    source.tighten()
    draft_view.tighten()
    assert (*view_bounds, draft_view.bound) == bounds
    assert draft_view.lengths.tolist() == lengths
    source.fixed = True
    draft_view.raise_bound(3)
    assert draft_view.bound == draft_view.slots == draft_view.k.shape[3] - 1 == slots


@pytest.mark.parametrize(("bits", "group"), [(4, None), (8, None), (4, 2), (8, 4)])
def test_codes_by_hand(bits: int, group: int | None) -> None:
    """Values in as many even steps as there are codes come back as they are; scale and zero point are
    stated.
    """
    source = cache([3, 3, 3], torch.float32)
    grouped = f",group={group}" if group else ""
    draft_view = view(f"quantized,bits={bits}{grouped}", source)
    assert isinstance(draft_view, QuantizedView)
    top = 2**bits - 1
    codes = torch.tensor([0, top] * (D // 2)).repeat(KV, 1)
    if group is None:
        codes[0, 2:4] = torch.tensor([3, 9])
    source.k[:, :, :, 7] = codes.float() * 0.5 - 2
    source.set_lengths(torch.tensor([8, 8, 8]), 8)
    draft_view.commit(torch.tensor([7, 7, 7]), torch.tensor([1, 1, 1]))
    draft_view.begin()
    restored = draft_view.restored(1, torch.float32)[0, :, :, 7]
    assert torch.equal(restored, source.k[1, :, :, 7])
    groups = D // (group or D)
    assert draft_view.scales[0, 1, 0, 0, 7].tolist() == [[0.5, -2.0]] * groups
    assert draft_view.codes.shape[-1] == D * bits // 8
    first = codes[0]
    halves = first[: D // 2] + 16 * first[D // 2 :]
    packed = first if bits == 8 else halves
    assert draft_view.codes[0, 1, 2, 0, 7].tolist() == packed.tolist()


CONTEXT = 96
"""All lengths equal and a multiple of every page and chunk: the engine's formulas do not round."""


@pytest.mark.parametrize(
    "method",
    [
        "full",
        "streamingllm:24",
        "snapkv:24,window=8",
        "snapkv:24,window=8,generated=10",
        "quest:24,page=8",
        "topk:24",
        "retrieval:24,every=4",
        "quantized,bits=4",
        "quantized,bits=8",
        "quantized,bits=4,group=4",
    ],
)
def test_bytes_gathered_are_the_bytes_predicted(method: str) -> None:
    """A draft step reads read_bytes + select_step().bytes per sequence and layer, and keeps stored_bytes."""
    source = cache([CONTEXT] * BATCH, torch.bfloat16)
    draft_view = view(method, source)
    predicted = parse_kv(method)
    if "generated" in method:
        grow(source, draft_view, [[5] * BATCH] * 2)
    draft_view.begin()
    inputs = query(dtype=torch.bfloat16)
    tensors = [value for value in vars(draft_view).values() if isinstance(value, Tensor)]
    with Reads([source.kv, *tensors]) as reads:
        draft_view.attend(0, *inputs)
    layout = KVLayout(KV, D, 2 * KV * D, HEADS, 2)
    context = float(source.lengths[0])
    wanted = predicted.read_bytes(context, layout) + predicted.select_step(context, layout).bytes
    assert sum(reads.bytes.values()) / BATCH == wanted
    if isinstance(draft_view, Packed):
        token_bytes = source.kv[:, 0, 0, :, 0].nbytes
        kept_bytes = int(draft_view.lengths[0]) * token_bytes
        if isinstance(draft_view, RetrievalView):
            means = draft_view.sums[:, :, :, : CONTEXT // 8].nbytes / LAYERS / BATCH
        else:
            means = 0
        assert kept_bytes + means == predicted.stored_bytes(context, layout)


class Reads(TorchDispatchMode):
    """Bytes that operators read of some tensors: what they are given of them, or what they pick out."""

    PICK = ("index_select", "gather", "index")

    def __init__(self, tensors: list[Tensor]) -> None:
        super().__init__()
        self.watched = {tensor.untyped_storage().data_ptr() for tensor in tensors if tensor.numel() > BATCH}
        self.bytes: dict[int, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        results = [part for part in tree_leaves(out) if isinstance(part, Tensor)]
        made = {part.untyped_storage().data_ptr() for part in results}
        for given in tree_leaves((args, kwargs)):
            if isinstance(given, Tensor) and given.untyped_storage().data_ptr() in self.watched - made:
                picked = out if func.overloadpacket.__name__ in self.PICK else given
                known = self.bytes.get(given.data_ptr(), 0)
                self.bytes[given.data_ptr()] = max(picked.nbytes, known)
        return out


SPARSE = [
    "streamingllm:32",
    "streamingllm:320,sinks=300",
    "snapkv:64,window=8",
    "retrieval:32,every=2",
    "quest:32,page=8",
]


@pytest.mark.parametrize("method", SPARSE)
@pytest.mark.parametrize("lengths", [[0, 0, 0], [0, 1, 0], [1, 1, 3]])
def test_prompts_of_which_a_separate_draft_holds_nothing(method: str, lengths: list[int]) -> None:
    """Its cache lags by a token."""
    source = cache(lengths)
    draft_view = view(method, source)
    torch.testing.assert_close(attended(draft_view), attended(view("full", source)))
    grow(source, draft_view, GROWTH)
    torch.testing.assert_close(attended(draft_view), attended(view("full", source)))


@pytest.mark.parametrize("method", METHODS)
@torch.inference_mode()
def test_a_view_states_all_that_iterations_change(target: Model, method: str) -> None:
    """A snapshot brings back every number and every small tensor; the large ones are contents."""
    request = Request(2, 20, 60, 3, draft_kv=method, script=(0, 1, 2, 1))
    decoder = make_decoder(target, request)
    state = start_random(decoder, 20, 60)
    view = decoder.models[0].view
    snapshot = Snapshot(DecoderRun(decoder, state))

    def small() -> dict[str, object]:
        own_tensors = {
            name: torch.as_tensor(value)
            for name, value in vars(view).items()
            if isinstance(value, (int, Tensor))
        }
        return {name: value.tolist() for name, value in own_tensors.items() if value.numel() <= 256}

    before = small()
    for _ in range(2):
        for _ in range(7):
            decoder.iterate(state)
        assert not isinstance(view, Packed) or small() != before
        snapshot.restore()
        assert small() == before
