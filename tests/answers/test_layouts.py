"""Layouts of several GPUs: what is searched, what is chosen, and that no other layout beats it."""

import random
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import pytest

from perfmodel.answers.advice.advice import Advice
from perfmodel.answers.advice.advise import advise
from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.candidates import NO_GROUPS, find_candidates
from perfmodel.answers.advice.layouts import Layout, of_gpus
from perfmodel.answers.advice.ranking import choose
from perfmodel.answers.advice.schedule import schedule
from perfmodel.answers.advice.search import Search
from perfmodel.answers.advice.searched_layouts import over_nodes, searched_layouts
from perfmodel.answers.point.whatif import whatif
from perfmodel.answers.question import Named
from perfmodel.errors import InputError
from perfmodel.specs import load_model
from tests.sampled import first_fast

BEATEN = 1.03
"""Largest factor by which another layout of the same GPUs may be better than the choice."""
BATCHES = (1, 64, 256, 500)
PLACES = first_fast(
    [
        ("qwen3-30b-a3b", "l40s", 4, "eagle3"),
        ("llama-3.1-8b", "h100", 8, "eagle3"),
        ("deepseek-v3", "h200", 8, "mtp"),
    ]
)


def rates(model: str, hardware: str, gpus: int, draft: str, advice: Advice) -> Iterator[tuple[float, str]]:
    """Tokens/s per GPU and the label of every layout, batch and draft length that `whatif` prices."""
    batches = {*BATCHES, *(p.batch for p in advice.layouts)}
    for layout, batch, gamma in product(of_gpus(gpus, load_model(model)), batches, (0, 1, 3)):
        try:
            a = whatif(model, hardware, batch, 8192, gamma, draft=draft, **layout.arguments())
        except InputError:
            continue
        if a.memory.fits and batch <= 256 * layout.server_gpus:
            yield layout.replicas * a.throughput_tokens_per_s / gpus, layout.label()


@cache
def advised(model: str, hardware: str, gpus: int, draft: str) -> Advice:
    return advise(model, hardware, gpus=gpus, draft=draft)


@pytest.mark.parametrize(("model", "hardware", "gpus", "draft"), PLACES)
def test_no_other_layout_of_the_same_gpus_beats_the_choice(model, hardware, gpus, draft) -> None:
    advice = advised(model, hardware, gpus, draft)
    best, where = max(rates(model, hardware, gpus, draft, advice))
    assert advice.chosen.gpus == gpus
    assert best <= BEATEN * advice.chosen.throughput_tokens_per_s_per_device, where


@pytest.mark.parametrize("gpus", [2, 4])
def test_a_shorter_draft_and_a_simpler_layout_lose_little_together(gpus: int) -> None:
    """Beyond the contexts of its acceptance a shorter draft is chosen, and a simpler layout may be."""
    place = {"draft": "eagle3", "weights": "fp8", "context": 32_768}
    model = "llama-3.3-70b"
    advice = advise(model, "h200", gpus=gpus, **place | {"draft": ["eagle3"]})
    batches = {*BATCHES, *(p.batch for p in advice.layouts)}
    most = 0.0
    for layout, batch, gamma in product(of_gpus(gpus, load_model(model)), batches, range(1, 8)):
        a = whatif(model, "h200", batch, gamma=gamma, **place, **layout.arguments())
        if a.memory.fits:
            most = max(most, layout.replicas * a.throughput_tokens_per_s / gpus)
    assert most <= BEATEN * advice.chosen.throughput_tokens_per_s_per_device


def test_a_layout_is_compared_with_the_fastest_draft_of_another_one() -> None:
    """A simpler layout that is 2 % behind the length of the best one to run, and 3 % behind its fastest."""
    query = AdviseQuery("llama-3.1-8b", "h100", gpus=2, draft=("eagle3",))
    points = {p.layout.tp: p for p in Search.of(query).ranked if p.gamma}
    simple = replace(points[1], value=100.0, most=100.0)
    assert simple.layout.simplicity < points[2].layout.simplicity
    assert choose([replace(points[2], value=102.0, most=102.0), simple], query).layout.tp == 1
    assert choose([replace(points[2], value=102.0, most=103.0), simple], query).layout.tp == 2


DRAWN = [
    *("llama-3.1-8b", "qwen3-8b", "qwen3-32b", "llama-3.3-70b", "qwen3-30b-a3b", "gpt-oss-120b"),
    *("glm-4.5-air", "qwen3.5-27b", "deepseek-v3"),
]


@pytest.mark.parametrize("seed", range(8))
def test_no_layout_of_a_random_question_beats_the_choice(seed: int) -> None:
    """Every layout that `whatif` prices at the batch and draft length of the choice, or of its own best
    point, serves at most 3 % more; verdict, draft length and rate are those of `whatif`.
    """
    draws = random.Random(seed)
    model = draws.choice(DRAWN)
    hardware = draws.choice(("h100", "h200", "b200", "a100", "l40s", "mi300x"))
    gpus = draws.choice((2, 4, 8))
    context = draws.choice((1024, 8192, 32768))
    draft = "mtp" if model.startswith(("glm", "qwen3.5", "deepseek")) else "eagle3"
    advice = advise(model, hardware, gpus=gpus, draft=draft, context=context)
    chosen = advice.chosen
    if chosen is None:
        assert advice.reason
        return
    best = 0.0
    for p, q in product(advice.layouts, (None, chosen)):
        point = q or p
        try:
            a = whatif(
                model, hardware, point.batch, context, point.gamma, p.tp, dp=p.dp, ep=p.ep, draft=draft
            )
        except InputError:
            continue
        if a.memory.fits:
            best = max(best, p.replicas * a.throughput_tokens_per_s / gpus)
        if q is None:
            assert p.throughput_tokens_per_s == pytest.approx(a.throughput_tokens_per_s, rel=1e-9)
            assert p.gamma == a.query.gamma
        if q is None and p == chosen and p.gamma and advice.verdict == "speculate":
            assert a.verdict == "pays"
    assert 0 < best <= BEATEN * chosen.throughput_tokens_per_s_per_device


@pytest.mark.parametrize(("model", "hardware", "gpus", "draft"), PLACES)
def test_the_figures_are_those_of_whatif_and_schedule(model, hardware, gpus, draft) -> None:
    advice = advised(model, hardware, gpus, draft)
    for p in advice.layouts:
        a = whatif(model, hardware, p.batch, 8192, p.gamma, p.tp, dp=p.dp, ep=p.ep, draft=draft)
        assert a.memory.fits
        assert p.throughput_tokens_per_s == pytest.approx(a.throughput_tokens_per_s, rel=1e-9)
        per_gpu = p.replicas * a.throughput_tokens_per_s / gpus
        assert p.throughput_tokens_per_s_per_device == pytest.approx(per_gpu, rel=1e-9)
        assert p.speedup == pytest.approx(a.speedup, rel=1e-9)
    p = advice.chosen
    layout = {"tp": p.tp, "dp": p.dp, "ep": p.ep, "draft": draft}
    at_its_batch = whatif(model, hardware, p.batch, 8192, p.gamma, **layout)
    assert (advice.verdict == "speculate") <= (at_its_batch.verdict == "pays")
    on = advice.on_off
    (table,) = schedule(model, hardware, "8k", on.looked_to, **layout, dynamic_price=0).tables
    drafted = [r for r in table.ranges if r.tokens]
    assert drafted[-1].high == (on.looked_to if on.off_from is None else on.off_from - 1)


def test_eight_small_servers_beat_one_large_one_that_has_more_tokens_in_all() -> None:
    advice = advise("llama-3.1-8b", "h100", tp=(1, 2, 4, 8))
    assert advice.chosen.tp == 1
    one_large = next(p for p in advice.layouts if p.tp == 8)
    assert one_large.throughput_tokens_per_s > advice.chosen.throughput_tokens_per_s
    all_eight = advise("llama-3.1-8b", "8xh100")
    assert all_eight.chosen.layout == "8 x TP 1"
    assert all_eight.chosen.all_servers_tokens_per_s == pytest.approx(
        8 * advice.chosen.throughput_tokens_per_s
    )
    own = "servers on one host each need their own devices (CUDA_VISIBLE_DEVICES) and --port"
    copies = {"vllm": f"vLLM {own}", "sglang": f"SGLang {own}"}
    assert advice.serve.remarks == {}
    assert all_eight.serve == replace(advice.serve, remarks=copies)


def test_a_latent_cache_gets_data_parallel_attention() -> None:
    advice = advise("deepseek-v3", "h200", gpus=8)
    assert advice.chosen.dp == 8
    tensor_parallel = next(p for p in advice.layouts if p.layout == "TP 8")
    assert advice.gain(advice.chosen) > 2 * advice.gain(tensor_parallel)
    by_degrees = advise("deepseek-v3", "h200", tp=8, dp="1,8", ep="1,8")
    assert by_degrees.chosen.throughput_tokens_per_s == pytest.approx(advice.chosen.throughput_tokens_per_s)


def test_layouts_that_do_not_run_are_skipped_with_the_reason() -> None:
    advice = advise("minimax-m2", "8xh200", context=4096)
    assert not any(p.layout == "TP 8" for p in advice.layouts)
    assert any("8 devices would divide a block" in skip.reason for skip in advice.skipped)


def test_idle_gpus_count_in_the_rate_per_gpu() -> None:
    advice = advise("qwen2.5-7b", "h100", gpus=3, rate={"ngram": "0.3x3"})
    assert advice.chosen.layout == "3 x TP 1"
    pair = next(p for p in advice.layouts if p.tp == 2)
    assert pair.layout == "TP 2, 1 idle"
    assert pair.throughput_tokens_per_s_per_device == pytest.approx(pair.throughput_tokens_per_s / 3)


def _plain(advice: Advice) -> str:
    """The command line of the simpler layout beside a choice with attention groups."""
    assert advice.chosen.dp > 1
    (plain,) = (each for each in advice.alternatives if "simpler to run" in each.text)
    assert "--data-parallel-size" not in plain.line
    return plain.text


def test_a_choice_with_attention_groups_names_tensor_parallelism_alone() -> None:
    """Although it is slower by more than a tenth."""
    asked = {"weights": "fp8", "context": 12_288, "batch": 64}
    text = _plain(advise("llama-4-scout", "4xh100", draft="eagle3", **asked))
    assert text == "TP 4, eagle3, gamma 3, batch 64 is simpler to run and gives 15% fewer tokens per second"


def test_under_a_load_too_a_choice_with_attention_groups_names_tensor_parallelism_alone() -> None:
    load = {"clients": 16, "input_len": 12_288, "output_len": 2048}
    assert _plain(advise("kimi-k2-thinking", "8xh200", **load)).startswith("TP 8 with no draft is simpler")


def test_a_layout_in_words() -> None:
    assert Layout(8, 8, 1).label() == "8 x TP 1"
    assert Layout(8, 1, 8, 8, 8).label() == "DP 8 EP 8"
    assert Layout(16, 2, 8, 2, 8).label() == "2 x TP 4 DP 2 EP 8"
    assert Layout(1, 1, 1).label() == "TP 1"


def test_layers_on_several_devices_are_counted_with_all_of_them() -> None:
    """llama.cpp with half of the layers on each of two cards: one server, not two."""
    question = {"model": "gemma-4-31b", "context": 8192, "engine": "llamacpp", "weights": "q4_k_m"}
    two = advise(hardware="2xrtx-3090", layer_split=2, **question).chosen
    assert (two.layout, two.gpus, two.replicas) == ("layers on 2", 2, 1)
    four = advise(hardware="4xrtx-3090", layer_split=2, **question).chosen
    assert (four.layout, four.gpus, four.replicas) == ("2 x layers on 2", 4, 2)
    assert four.throughput_tokens_per_s_per_device == pytest.approx(two.throughput_tokens_per_s / 2)
    with pytest.raises(InputError, match="must be a divisor of"):
        advise(hardware="3xrtx-3090", layer_split=2, **question)


def test_cards_of_llama_cpp_are_divided_by_layers_too() -> None:
    """Three cards do not divide 64 heads; a model that two cannot hold has its layers on all three."""
    question = {"model": "qwen3-32b", "context": 8192, "weights": "q6_k", "engine": "llamacpp", "batch": (1,)}
    searched = advise(hardware="3xrtx-3060", draft=["ngram"], **question)
    assert [p.layout for p in searched.layouts] == ["layers on 3"]
    p = searched.chosen
    assert (p.layer_split, p.gpus, p.tp) == (3, 3, 1)
    stated = advise(hardware="3xrtx-3060", draft=["ngram"], layer_split=3, **question).chosen
    assert p.tpot_s == stated.tpot_s
    assert "-sm layer" in searched.serve.lines["llamacpp"]
    pair = advise(hardware="2xrtx-3090", draft=["ngram"], **question)
    assert {p.layout for p in pair.layouts} == {"TP 2", "layers on 2"}


def test_groups_over_pcie_are_searched_only_by_name() -> None:
    question = {"model": "qwen3-30b-a3b", "hardware": "4xrtx-pro-6000", "draft": ["ngram"], "context": 4096}
    usual = advise(**question)
    assert {(p.dp, p.ep) for p in usual.layouts} == {(1, 1)}
    assert any("over PCIe" in skip.reason for skip in usual.skipped)
    named = advise(**question, dp=(4,))
    assert {p.dp for p in named.layouts} == {4}
    assert not any("over PCIe" in skip.reason for skip in named.skipped)


def test_llama_cpp_has_no_groups() -> None:
    """A model with experts on two linked cards: llama-server divides tensors or layers, never attention."""
    question = {"model": "qwen3-coder-30b-a3b", "engine": "llamacpp", "weights": "q4_k_m", "context": 4096}
    searched = advise(hardware="2xrtx-3090", draft=["ngram"], **question)
    assert {p.layout for p in searched.layouts} <= {"TP 2", "2 x TP 1", "layers on 2"}
    with pytest.raises(InputError, match=r"dp: must be 1 for llama\.cpp, which has no such groups, given 2"):
        whatif(hardware="rtx-3090", tp=2, dp=2, batch=1, gamma=0, **question)


def test_experts_are_not_divided_over_nodes_behind_data_parallel_attention() -> None:
    found = advise("deepseek-r1", "16xh100", draft=["mtp"], context=4096)
    beyond = [p for p in found.layouts if p.tp > 8 and p.dp > 1]
    assert beyond
    assert all(p.ep == p.tp for p in beyond)
    assert "--enable-expert-parallel" in found.serve.vllm_line
    named = advise("deepseek-r1", "16xh100", draft=["mtp"], context=4096, dp=16, ep=1)
    assert named.chosen.layout == "DP 16"


def test_a_load_that_no_node_serves_is_searched_over_whole_nodes() -> None:
    load = {"request_rate": 50, "input_len": 2000, "output_len": 300}
    layouts = over_nodes(AdviseQuery("deepseek-v3.2", "h200", **load))
    assert {each.server_gpus for each in layouts} == {16, 24, 32}
    assert all(each.ep == each.server_gpus for each in layouts if each.dp > 1)
    assert {each.dp for each in layouts if each.server_gpus == 16} == {1, 2, 4, 8, 16}
    assert over_nodes(AdviseQuery("llama-3.3-70b", "h200", **load)) == [], "no experts"
    for stated in ({"tp": 8}, {"gpus": 8}, {"dp": 8}, {"ep": 8}):
        assert over_nodes(AdviseQuery("deepseek-v3.2", "h200", **load, **stated)) == []


def test_servers_of_llama_cpp_for_a_load_have_their_layers_on_several_devices_too() -> None:
    load = {"request_rate": 1, "input_len": 2000, "output_len": 300}

    def labels(**more: Any) -> set[str]:
        query = AdviseQuery("qwen3-8b", "rtx-4090", **{"engine": "llamacpp"} | load | more)
        named = Named.of(query)
        return {each.label() for each in searched_layouts(query, named.target, named.gpu)}

    assert labels() == {"TP 1", "TP 2", "TP 4", "TP 8", "layers on 2", "layers on 4", "layers on 8"}
    assert labels(engine="vllm") == labels(tp=(1, 2, 4, 8)) == {"TP 1", "TP 2", "TP 4", "TP 8"}
    assert labels(layer_split=2, gpus=2) == {"layers on 2"}


def test_devices_that_share_layers_count_in_each_layout() -> None:
    """Servers with layers on three devices each, of six; for a load, any number of such servers may run."""

    def layouts(**more: Any) -> list[tuple[int, str]]:
        query = AdviseQuery("qwen3-8b", "rtx-4090", engine="llamacpp", layer_split=3, **more)
        named = Named.of(query)
        return [(each.gpus, each.label()) for each in searched_layouts(query, named.target, named.gpu)]

    assert (6, "2 x layers on 3") in layouts(gpus=6)
    assert {gpus for gpus, _ in layouts(gpus=6)} == {6}
    assert (3, "layers on 3") in layouts(clients=4, input_len=100, output_len=50)
    assert layouts(context=4096) == [(3, "layers on 3")]


def test_whole_experts_are_simpler_only_with_attention_on_each_of_many_gpus() -> None:
    def whole(gpus: int, dp: int) -> bool:
        return Layout(gpus, 1, gpus, dp, gpus).simplicity < Layout(gpus, 1, gpus, dp).simplicity

    assert whole(8, 8)
    assert not whole(2, 2)
    assert not whole(8, 4)
    assert not whole(8, 1)


def test_a_simpler_layout_has_smaller_servers_or_fewer_kinds_of_groups() -> None:
    tensor, experts, both = (Layout(4, 1, 4, dp, ep) for dp, ep in ((1, 1), (1, 4), (4, 4)))
    assert tensor.is_simpler_than(experts)
    assert tensor.is_simpler_than(both)
    assert not experts.is_simpler_than(both)
    assert not Layout(4, 1, 4, 4, 1).is_simpler_than(both)
    assert Layout(4, 2, 2, 2, 2).is_simpler_than(both)
    assert not Layout(8, 1, 8).is_simpler_than(both)
    assert tensor.is_plainer_than(experts)
    assert not experts.is_plainer_than(both)
    assert not tensor.is_plainer_than(Layout(4, 2, 2))


MIXTURE = ("qwen3-30b-a3b", "rtx-4090")
"""Experts over PCIe."""


@pytest.mark.parametrize(
    ("model", "hardware", "stated", "is_told"),
    [
        (*MIXTURE, {"gpus": 4}, True),
        (*MIXTURE, {"gpus": 1}, False),
        (*MIXTURE, {"tp": (4,)}, False),
        (*MIXTURE, {"gpus": 4, "dp": (2,)}, False),
        (*MIXTURE, {"gpus": 4, "engine": "llamacpp"}, False),
        ("qwen3-8b", "rtx-4090", {"gpus": 4}, False),
        ("qwen3-30b-a3b", "h100", {"gpus": 4}, False),
    ],
)
def test_groups_that_are_not_searched_over_pcie_are_told_of(model, hardware, stated, is_told) -> None:
    """For experts on several devices without a direct link, in an engine with groups."""
    found = find_candidates(AdviseQuery(model, hardware, context=4096, **stated))
    assert [skip.reason for skip in found.skips if skip.draft == "any"] == [NO_GROUPS] * is_told


@pytest.mark.parametrize(
    ("stated", "is_searched"),
    [
        ({"gpus": 8, "weights": "fp8"}, False),
        ({"gpus": 8, "weights": "fp8", "model_path": "/my/checkpoint"}, True),
        ({"gpus": 8}, True),
        ({"tp": (8,), "weights": "fp8"}, True),
        ({"gpus": 8, "tp": (8,), "weights": "fp8"}, True),
    ],
)
def test_a_layout_that_the_published_checkpoint_forbids_is_searched_only_if_it_is_named(
    stated: dict[str, Any], is_searched: bool
) -> None:
    """The experts of Qwen3-235B-A22B-FP8 are 1,536 wide, in blocks of 128 that eight devices would divide."""
    found = find_candidates(AdviseQuery("qwen3-235b-a22b", "h100", context=4096, **stated))
    labels = {each.layout.label() for each in found.baselines}
    assert ("TP 8" in labels) is is_searched
    told = any("Qwen/Qwen3-235B-A22B-FP8 has fp8-block weights" in skip.reason for skip in found.skips)
    assert told is not is_searched
