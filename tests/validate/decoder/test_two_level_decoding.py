"""Two levels of drafting: greedy output is plain output, the small model's cache stays right, and counts add up."""

import pytest
import torch

from perfmodel.errors import InputError
from perfmodel.validate.decoder.factory import make_decoder
from perfmodel.validate.decoder.generation import Generation
from perfmodel.validate.decoder.model import Model
from perfmodel.validate.decoder.request import Request
from perfmodel.validate.decoder.script import scripted_weights
from perfmodel.validate.decoder.two_levels import TwoLevelDecoder
from tests.validate.decoder.methods import METHODS, check_cache, watched

NEW = 40


@pytest.fixture(scope="module")
def ragged() -> list[list[int]]:
    """Prompts of two tokens and more."""
    generator = torch.Generator().manual_seed(6)
    return [torch.randint(61, (n,), generator=generator).tolist() for n in (70, 2, 33, 50)]


@pytest.fixture(scope="module")
def plain(target: Model, ragged: list[list[int]]) -> Generation:
    return make_decoder(target, Request(4, 70, NEW)).generate(ragged, NEW)


def levels(
    target: Model, small: Model, middle: str, inner: int = 2, gamma: int = 4, draft_kv: str = "full", **more: object
) -> TwoLevelDecoder:
    asked = Request(4, 70, NEW, gamma, "model", draft_kv, middle_kv=middle, inner_gamma=inner, **more)  # type: ignore[arg-type]
    made = make_decoder(target, asked, small)
    assert isinstance(made, TwoLevelDecoder)
    return made


@pytest.mark.parametrize(("inner", "gamma"), [(1, 5), (3, 4)])
@pytest.mark.parametrize("middle", [method for method in METHODS if "own_prefill" not in method])
def test_greedy_output_is_plain_output(
    target: Model, small: Model, ragged: list[list[int]], plain: Generation, middle: str, inner: int, gamma: int
) -> None:
    made = levels(target, small, middle, inner, gamma)
    counter = watched(made)
    out = made.generate(ragged, NEW)
    assert out.tokens == plain.tokens
    assert len(out.histogram) == gamma + inner + 1
    counts = counter.counts
    assert counts.iterations == sum(out.histogram)
    assert counts.accepted == sum(j * count for j, count in enumerate(out.histogram))
    assert len(counts.inner) == inner + 1
    assert counts.inner[0] > 0, "the sparse target must refuse some of the small model's tokens"
    assert sum(counts.inner[1:]) > 0, "and take some"
    assert gamma <= counts.drafted <= gamma + inner
    assert (counts.complete == counts.iterations) == (middle == "full"), "only a full middle level is always right"


@pytest.mark.parametrize("model", ["small", "target"])
@torch.inference_mode()
def test_the_small_models_cache_is_that_of_a_fresh_prefill(
    target: Model, small: Model, ragged: list[list[int]], model: str
) -> None:
    """Whatever was collected and refused; also where everything was accepted, whose last token was never fed."""
    draft = small if model == "small" else target
    made = levels(target, draft, "streamingllm:24")
    state = made.start(ragged, NEW)
    for _ in range(6):
        made.iterate(state)
    check_cache(made.target.cache, target, state)
    check_cache(made.levels.small.runner.cache, draft, state, behind=3)


def test_scripts_drive_both_levels(target: Model, small: Model, ragged: list[list[int]]) -> None:
    """Rates, rounds and tokens are those of the scripts; a sequence never gains more than it has drafted."""
    inner, outer = scripted_weights(0.6, 2), scripted_weights(0.8, 6)
    made = levels(target, small, "streamingllm:24", script=tuple(outer), inner_script=tuple(inner))
    prompts, found = [row[:2] * 2 for row in ragged], []
    for seed in range(30):
        made.observers.clear()
        counter, before = watched(made), (made.levels.rounds, made.levels.verified)
        out = made.generate(prompts, NEW, seed)
        found.append(counts := counter.counts)
        assert counts.complete <= counts.iterations == sum(out.histogram)
        rounds, verified = made.levels.rounds - before[0], made.levels.verified - before[1]
        assert rounds >= counts.rounds * out.iterations, "until the slowest sequence has enough"
        assert 5 * out.iterations <= verified <= 7 * (out.iterations + 3)
        with torch.inference_mode():
            state = made.start(prompts, NEW, seed)
            drafted, probs = made.propose(state)
            count = made.accept(state, drafted, probs, made.verify(state, drafted)).count
            assert (count <= made.levels.drafted).all()
    alphas = [sum(column) / len(found) for column in zip(*(counts.alphas for counts in found), strict=True)]
    assert alphas == [pytest.approx(0.6, abs=0.04), pytest.approx(0.8, abs=0.04)]


@pytest.mark.parametrize(
    ("says", "request_"),
    [
        ("must stand over a separate --draft model", {"draft": "self"}),
        ("without --tree and --alpha", {"script": (0.0, 1.0, 0.0)}),
        ("must be gamma . 1 = 4 counts, given 3", {"script": (0.0, 1.0, 0.0), "inner_script": (0.0, 1.0)}),
        ("must be gamma . 1 = 2 counts, given 1", {"script": (0.0, 1.0, 0.0, 0.0), "inner_script": (1.0,)}),
        ("without --tree and --alpha", {"tree": (-1, 0, 1)}),
        ("--inner-gamma, --gamma: must be 1 or more", {"inner_gamma": 0}),
        ("h2o can be predicted but not run", {"middle_kv": "h2o:24"}),
    ],
)
def test_refusals(target: Model, small: Model, says: str, request_: dict[str, object]) -> None:
    good = {"batch": 1, "context": 8, "new_tokens": 8, "gamma": 2}
    good |= {"draft": "model", "middle_kv": "full", "inner_gamma": 1}
    with pytest.raises(InputError, match=says):
        make_decoder(target, Request(**good | request_), small)  # type: ignore[arg-type]


def test_a_prompt_of_one_token_is_refused(target: Model, small: Model, prompts: list[list[int]]) -> None:
    with pytest.raises(InputError, match="--middle-kv: prompts must be of 2 tokens or more"):
        levels(target, small, "full").generate(prompts, NEW)
