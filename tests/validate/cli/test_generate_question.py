"""The question of `perfmodel validate generate`: what it refuses, and the request that it makes."""

from types import SimpleNamespace
from typing import Any

import pytest

from perfmodel.validate.cli.generate import draft_caches
from perfmodel.validate.cli.generate_question import GenerateQuestion
from perfmodel.validate.decoder import ModelPair, Request, Sampling
from tests.refusals import refused


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"checkpoint": "/none"}, "checkpoint: must be a folder with config.json and .safetensors"),
        (
            {"tree": "2x1", "draft": "ngram"},
            "tree: must be used with a draft that runs a model, given 'ngram'",
        ),
        ({"middle_kv": "nope:1"}, "middle_kv: no KV method named 'nope'"),
        ({"middle_kv": "full", "graphs": True}, "graphs: must be used without middle_kv"),
        ({"middle_kv": "full", "alpha": 0.8}, "middle_kv: must be left out with alpha or tree"),
        ({"tree": "2x1", "alpha": 0.8}, "tree: must be left out with alpha"),
    ],
)
def test_what_does_not_go_together_is_refused_in_one_line(changes: dict[str, Any], message: str) -> None:
    refused(message, GenerateQuestion, **changes)


def test_a_request_without_options_one_that_is_scripted_and_one_of_trees() -> None:
    assert GenerateQuestion().request("self") == Request(2, 4096, 128, 4)
    scripted = GenerateQuestion(batch=3, context=80, new_tokens=7, gamma=1, alpha=0.8)
    script = (pytest.approx(0.2), pytest.approx(0.8))
    assert scripted.request("self") == Request(3, 80, 7, 1, script=script)
    of_trees = GenerateQuestion(tree="2x1")
    assert of_trees.request("model") == Request(2, 4096, 128, 2, "model", tree=(-1, 0, 0, 1, 2))


def test_a_request_of_sampling_and_of_two_levels() -> None:
    sampled = GenerateQuestion(temperature=0.7, top_p=0.9, top_k=20, attention="math", pointwise="torch")
    request = sampled.request("self")
    assert request.sampling == Sampling(0.7, 0.9, 20)
    assert (request.attention, request.pointwise) == ("math", "torch")
    levels = GenerateQuestion(middle_kv="full", inner_gamma=3).request("model")
    assert (levels.middle_kv, levels.inner_gamma) == ("full", 3)
    assert GenerateQuestion(inner_gamma=3).request("self").inner_gamma == 0, "one level has no inner one"


def test_the_pair_has_the_models_of_the_question() -> None:
    words = {"weights": "random:1", "draft": "ngram", "draft_weights": "random:2", "dtype": "bf16"}
    words |= {"device": "cpu", "kv_dtype": "fp8"}
    ranks = {"tp": 4, "draft_tp": 2}
    pair = GenerateQuestion(model="llama-68m", **words, **ranks).pair()
    assert pair == ModelPair(target="llama-68m", **words, **ranks)


def caches(kind: str = "self", head: bool = False, windows: int = 0, **changes: Any) -> tuple[str, ...]:
    """The KV methods of a draft of a kind. head: whether it is trained for the target. windows: layers with
    a sliding window.
    """
    question = GenerateQuestion(**changes)
    target: Any = SimpleNamespace(spec=SimpleNamespace(num_sliding_layers=windows))
    pair: Any = SimpleNamespace(is_head=lambda _: head)
    return tuple(draft_caches(question, question.request(kind), pair, target, None))


def test_a_self_draft_is_decoded_with_every_cache_unless_the_question_names_some() -> None:
    every = caches()
    assert every[0] == "full"
    assert len(every) > 5
    assert caches(draft_kv=("all",)) == every
    assert caches(draft_kv=("quest:1k", "full")) == ("quest:1k", "full")


@pytest.mark.parametrize(
    "changes", [{"draft": "ngram"}, {"middle_kv": "full", "kind": "model"}, {"head": True}]
)
def test_drafts_with_a_cache_of_their_own_are_decoded_with_that(changes: dict[str, Any]) -> None:
    assert caches(**changes) == ("full",)


@pytest.mark.parametrize("changes", [{"windows": 2}, {"kv_dtype": "fp8"}])
def test_windows_and_fp8_caches_leave_out_methods_with_a_prefill_of_their_own(
    changes: dict[str, Any],
) -> None:
    assert len(caches(**changes)) < len(caches())
