"""Token trees: greedy output is plain output, a chain as a tree is the chain, and nothing is misplaced."""

import pytest
import torch

from perfmodel.speculation.tree import Growth, TreeAcceptance, expected_tokens
from perfmodel.speculation.tree_shape import branching, depths
from perfmodel.validate.decoder import Request, Sampling, TreeCounts, make_decoder, watched
from perfmodel.validate.decoder.tree_sampling import Topology
from tests.sampled import diagonal
from tests.validate.decoder.methods import METHODS, PUBLISHED, check_cache

NEW = 40
SEQUOIA = Growth(TreeAcceptance.of([0.5, 0.2, 0.1, 0.05]), 14, 5).best(14, 5).parents
TREES = {
    "chain": branching("1x1x1x1"),
    "binary": branching("2x2x2"),
    "star": branching("7"),
    "sequoia": SEQUOIA,
    "lopsided": (-1, 0, 0, 0, 2, 2, 3, 5, 6, 6, 9),
}


def request_for(
    prompts: list[list[int]], tree: tuple[int, ...], kind: str = "self", **more: object
) -> Request:
    gamma = depths(tree)[-1]
    return Request(len(prompts), 70, NEW, gamma, kind, tree=tree, **more)


def test_a_topology_by_hand() -> None:
    tree = Topology(TREES["lopsided"], torch.device("cpu"))
    assert tree.widths == (1, 3, 3, 3, 1)
    assert tree.starts == (0, 1, 4, 7, 10, 11)
    assert tree.max_children == (3, 2, 2, 1)
    assert tree.depth.tolist() == [0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4]
    assert tree.rank.tolist() == [0, 0, 1, 2, 0, 1, 0, 0, 0, 1, 0]
    assert tree.children.tolist()[:4] == [[1, 2, 3], [0, 0, 0], [4, 5, 0], [6, 0, 0]]
    picks = [pick.tolist() for pick in tree.picks]
    assert picks == [[0, 1, 2], [2, 3, 4], [2, 4, 5], [2]]
    seen = tree.sees[10].nonzero().flatten()
    assert seen.tolist() == [0, 3, 6, 9, 10]


ACCEPTED = {
    "chain": [(128, 41), (53, 17)],
    "binary": [(120, 62), (58, 26)],
    "star": [(80, 60), (55, 43)],
    "sequoia": [(128, 66), (68, 35)],
    "lopsided": [(80, 56), (45, 30), (47, 30), (69, 46), (65, 43), (86, 55), (55, 40), (82, 57)],
}
"""Draft tokens that stand with the first of METHODS, drafted by the target itself and by a model."""


PLACES = [(shape, number) for shape in TREES for number in range(len(ACCEPTED[shape]))]


@pytest.mark.parametrize(("place", "kind"), diagonal(PLACES, [("self",), ("model",)]))
def test_greedy_output_is_plain_output(target, small, prompts, plain, place, kind) -> None:
    shape, number = place
    request = request_for(prompts, TREES[shape], kind, draft_kv=METHODS[number])
    draft = small if kind == "model" else None
    out = make_decoder(target, request, draft).generate(prompts, NEW)
    assert out.tokens == plain.tokens
    gamma = depths(TREES[shape])[-1]
    assert len(out.histogram) == gamma + 1
    accepted = sum(j * n for j, n in enumerate(out.histogram))
    assert accepted == ACCEPTED[shape][number][kind == "model"]


@pytest.mark.parametrize("shape", ["binary", "lopsided"])
def test_a_tree_over_a_rolling_cache(target, shape) -> None:
    """Whose slots wrap round: accepted nodes are moved to where tokens lie in it, not to their positions."""
    generator = torch.Generator().manual_seed(1)
    prompt = torch.randint(target.spec.vocab_size, (150,), generator=generator).tolist()
    prompts = [prompt[:120], prompt[:90], prompt]
    tree = TREES[shape]
    request = Request(3, 150, NEW, depths(tree)[-1], draft_kv=PUBLISHED, tree=tree)
    decoder = make_decoder(target, request)
    plain = make_decoder(target, request.plain()).generate(prompts, NEW)
    assert decoder.generate(prompts, NEW).tokens == plain.tokens
    (draft_cache,) = decoder.caches[1:]
    assert int(draft_cache.lengths.min()) > 128 - NEW


@pytest.mark.parametrize(
    ("sampling", "kind"),
    diagonal([Sampling(), Sampling(0.8), Sampling(1.1, 0.7)], [("self",), ("model",)]),
)
def test_a_chain_as_a_tree_is_the_chain(target, small, prompts, kind, sampling) -> None:
    """From the same random numbers: the same tokens, the same acceptance."""
    draft = small if kind == "model" else None
    for gamma in (1, 4):
        chain = Request(len(prompts), 70, NEW, gamma, kind, "snapkv:24,window=8", sampling)
        one_child_a_level = branching("x".join("1" * gamma))
        tree = request_for(prompts, one_child_a_level, kind, draft_kv=chain.draft_kv, sampling=sampling)
        of_the_chain = make_decoder(target, chain, draft).generate(prompts, NEW, 0)
        assert make_decoder(target, tree, draft).generate(prompts, NEW) == of_the_chain


@pytest.mark.parametrize("kind", ["self", "model"])
@torch.inference_mode()
def test_the_accepted_path_is_moved_together(target, small, prompts, kind) -> None:
    """Target and draft caches are those of a fresh prefill, whatever nodes were accepted, and however
    often.
    """
    draft = small if kind == "model" else None
    decoder = make_decoder(target, request_for(prompts, SEQUOIA, kind), draft)
    counter = watched(decoder)
    state = decoder.start(prompts, NEW)
    for _ in range(9):
        decoder.iterate(state)
    assert counter.counts.taken[0] > 0
    if kind != "self":
        further = counter.counts.taken[1:]
        assert sum(further) > 0, "other children than the first must be accepted"
    check_cache(decoder.target.cache, target, state)
    for draft_cache in decoder.caches[1:]:
        check_cache(draft_cache, small, state, behind=2)


def test_scripted_paths_have_the_stated_rates(small, prompts) -> None:
    """By rank and at every level, whatever the models say; children beyond the rates are never accepted."""
    rates = (0.5, 0.2, 0.1)
    request = Request(400, 8, 30, 3, draft_kv="streamingllm:16", tree=branching("4x2x1"), script=rates)
    decoder = make_decoder(small, request)
    counter = watched(decoder)
    prompt = prompts[0][:8]
    out = decoder.generate([prompt] * 400, 30, seed=1)
    counts = counter.counts
    assert counts.tried[0] > 4000
    for rank, rate in enumerate(rates):
        four_deviations = 4 * (rate / counts.tried[rank]) ** 0.5
        assert counts.rates[rank] == pytest.approx(rate, abs=four_deviations)
    assert counts.taken[3] == 0
    assert TreeCounts((4, 0), (2, 0)).rates == [0.5, 0.0]
    expected = expected_tokens(branching("4x2x1"), TreeAcceptance.of(rates))
    accepted = sum(j * n for j, n in enumerate(out.histogram))
    assert 1 + accepted / sum(out.histogram) == pytest.approx(expected, rel=0.03)
