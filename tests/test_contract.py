"""What every file of devices, models and families, KV methods, drafts, policies and engines must keep.

Nothing here knows a name: a file that is added is found and held to the same, with ``-k NAME`` by itself.
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from perfmodel import kv
from perfmodel.answers.advice.advise import advise
from perfmodel.answers.advice.schedule import schedule
from perfmodel.answers.load.traffic import traffic
from perfmodel.answers.point.whatif import whatif
from perfmodel.answers.question import Query, resolve
from perfmodel.cli import engines as engine_catalogue, gpus as gpu_catalogue, models as model_catalogue
from perfmodel.drafts import kinds
from perfmodel.errors import InputError
from perfmodel.queueing.policies import in_words, policies
from perfmodel.specs import GPUSpec, files, load_model, serving_engines
from perfmodel.specs.boundary.frozen import annotations
from perfmodel.specs.boundary.units import Quantity
from perfmodel.specs.devices import loading
from perfmodel.specs.devices.gpu import Link
from perfmodel.specs.huggingface import from_config
from perfmodel.specs.huggingface.families import family_of, rows
from perfmodel.specs.models import model
from perfmodel.speculation import Workload, predict, speedups

# Devices.

GPUS = files.bundled_names("gpus")
ACCELERATORS = [name for name in GPUS if loading.load_bundled(name).kind != "cpu"]


def sourced(device: GPUSpec) -> dict[str, Quantity]:
    quantities: dict[str, Quantity] = {f"peak.{name}": q for name, q in device.peak.items()}
    for name in annotations(GPUSpec):
        value = getattr(device, name)
        if isinstance(value, Quantity):
            quantities[name] = value
        elif isinstance(value, Link):
            quantities[name] = value.per_direction
    return quantities


@pytest.mark.parametrize("name", GPUS)
def test_a_device_is_named_by_its_file_and_sourced(name: str) -> None:
    device = loading.load_bundled(name)
    assert device.name == name
    assert gpu_catalogue.CATALOGUE.faults(device) == []
    for key, q in sourced(device).items():
        assert len(q.source) > 3, key
        assert ("recalled" in q.source) <= (q.evidence == "recalled"), key


def test_aliases_of_devices_are_unique_lower_case_and_no_names() -> None:
    seen = list(GPUS)
    for name in GPUS:
        seen += loading.load_bundled(name).aliases
    assert len(seen) == len(set(seen))
    assert all(alias == alias.lower() for alias in seen)


@pytest.mark.parametrize("name", ACCELERATORS)
def test_a_roofline_is_plausible(name: str) -> None:
    device = loading.load_bundled(name)
    bf16 = device.peak_flops("bf16")
    assert 20 < bf16 / device.memory_bandwidth_bytes_per_s < 600  # FLOP a byte: M4 Max 23, TPU v6e 560
    assert 8e9 <= device.memory_bytes <= 512e9
    assert 0.06e12 <= device.memory_bandwidth_bytes_per_s < 10e12  # LPDDR4X of the first M1: 68 GB/s
    for precision in ("fp8", "int8"):
        if precision in device.peak and (device.architecture, precision) != (
            "Blackwell Ultra",
            "int8",
        ):  # cut there
            assert 0.999 <= device.peak_flops(precision) / bf16 <= 4.004  # 1: emulated; 4: RTX int8
    if "fp32" in device.peak:
        assert device.peak_flops("fp32") <= bf16  # equal without matrix units
    assert device.link_rate(2) is None or 15e9 <= device.link_rate(2) <= 1000e9


# Models.

MODELS = files.bundled_names("models")


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_named_by_its_file_is_sourced_and_answers(name: str) -> None:
    spec = model.load_bundled(name)
    assert spec.name == name
    assert spec.hf_id
    assert spec.published.total_b
    assert model_catalogue.CATALOGUE.faults(spec) == []
    assert len(spec.source) > 10
    answer = whatif(name, "b200", 1, 1024, gamma=2, draft_kv="streamingllm:256", alpha=0.8, weights="bf16")
    answer = answer.as_dict()
    assert answer["memory"]["weight_bytes"] > 0.999 * 2 * spec.active_params  # bf16; some norms are left out
    assert 0 < answer["target_step"]["lower_s"] <= answer["target_step"]["predicted_s"]


def test_aliases_of_models_are_unique_and_resolve() -> None:
    seen: list[str] = list(MODELS)
    for name in MODELS:
        spec = model.load_bundled(name)
        seen += [alias.lower() for alias in (*spec.aliases, spec.hf_id or "")]
        assert all(load_model(alias).name == spec.name for alias in (*spec.aliases, spec.hf_id or ""))
    assert len(seen) == len(set(seen))


@pytest.mark.parametrize("model_type", rows())
def test_a_family_has_a_source_and_names_the_key_that_a_file_lacks(model_type: str) -> None:
    family = family_of(model_type)
    assert len(family.source) > 10
    with pytest.raises(InputError, match=r"^c\.json: [\w.]+: must be .*, and it is missing$"):
        from_config({"model_type": model_type}, "c.json")


# KV methods.

# Llama-3.1-8B, bf16: 2 x 8 heads x 128 x 2 bytes = 4096 bytes per token and layer
LLAMA = kv.KVLayout(num_kv_heads=8, head_dim=128, values_per_token=2048, query_heads=32, bytes_per_value=2)
# DeepSeek-V3 MLA, bf16: latent 512 + rope 64 = 576 values, 1152 bytes
LATENT = kv.KVLayout(num_kv_heads=1, head_dim=576, values_per_token=576, query_heads=128, bytes_per_value=2)
CONTEXTS = np.array([1.0, 31.5, 512.0, 513.0, 4096.0, 4097.0, 32_000.0, 1e6])
COSTS = ("select_step", "select_iteration", "setup")

every_method = pytest.mark.parametrize("name", kv.names())
every_layout = pytest.mark.parametrize("layout", [LLAMA, LATENT], ids=["gqa", "mla"])


def example(name: str) -> kv.KVMethod:
    return kv.parse_kv(kv.method(name).example)


def quantities(
    method: kv.KVMethod, context: float | NDArray[np.float64], layout: kv.KVLayout
) -> Iterator[tuple[str, Any]]:
    yield "attended", method.attended_tokens(context)
    yield "read", method.read_bytes(context, layout)
    yield "stored", method.stored_bytes(context, layout)
    yield "own", method.own_bytes(context, layout)
    for cost in COSTS:
        step = getattr(method, cost)(context, layout)
        for figure in ("flops", "bytes", "kernels"):
            yield f"{cost}.{figure}", getattr(step, figure)


@every_method
@every_layout
def test_scalar_equals_array_and_shape_is_kept(name: str, layout: kv.KVLayout) -> None:
    grid = np.broadcast_to(CONTEXTS.reshape(2, 1, 4), (2, 3, 4))
    singles = [dict(quantities(example(name), float(c), layout)) for c in CONTEXTS]
    for key, value in quantities(example(name), grid, layout):
        assert np.shape(value) in ((), grid.shape), key
        expected = np.array([float(s[key]) for s in singles]).reshape(2, 1, 4)
        np.testing.assert_array_equal(
            np.broadcast_to(value, grid.shape), np.broadcast_to(expected, grid.shape), key
        )


@every_method
@every_layout
def test_costs_are_finite_never_negative_and_never_fall_with_context(name: str, layout: kv.KVLayout) -> None:
    """And a step never reads less than what it attends to, unless a whole cache is kept in fewer bits."""
    method = example(name)
    for key, value in quantities(method, CONTEXTS, layout):
        series = np.broadcast_to(value, CONTEXTS.shape)
        assert np.all(np.isfinite(series) & (series >= 0)), key
        assert np.all(np.diff(series) >= 0), key
    if method.budget is not None or not hasattr(method, "bits"):
        assert np.all(
            method.read_bytes(CONTEXTS, layout) >= method.attended_tokens(CONTEXTS) * layout.token_bytes
        )


@every_method
def test_a_method_says_what_it_is_and_attends_to_the_smaller_of_budget_and_context(name: str) -> None:
    kv_method = kv.method(name)
    method = example(name)
    assert kv_method.name == name
    assert "arXiv" in kv_method.source
    assert kv_method.__doc__
    assert not kv_method.__doc__.startswith(f"{kv_method.__name__}(")
    assert method.label().startswith(name)
    attended = method.attended_tokens(CONTEXTS)
    assert np.all(attended <= CONTEXTS)
    if method.budget is not None:
        np.testing.assert_array_equal(attended, np.minimum(method.budget, CONTEXTS))
    assert not np.isnan(method.attended_tokens(np.asarray(np.inf)))


@every_method
@every_layout
def test_at_or_below_its_budget_a_method_is_full(name: str, layout: kv.KVLayout) -> None:
    method = example(name)
    full = kv.parse_kv("full")
    if method.budget is not None:
        context = np.array([1.0, 100.0, float(method.budget) - 0.5, float(method.budget)])
        pairs = zip(quantities(method, context, layout), quantities(full, context, layout), strict=True)
        for (key, one), (_, two) in pairs:
            np.testing.assert_array_equal(
                np.broadcast_to(one, context.shape), np.broadcast_to(two, context.shape), key
            )


# Draft kinds.

DRAFTS = {word: kind.example for word, kind in kinds().items()}


@pytest.mark.parametrize("word", DRAFTS)
def test_a_draft_keeps_the_contract(word: str) -> None:
    """Grid and loop agree, gamma 0 is plain decoding, more tokens cost more, memory is counted, whatif
    answers.
    """
    kind = kinds()[word]
    assert kind.kind == word
    assert "arXiv" in kind.source or "github.com" in kind.source
    assert kind.__doc__
    assert not kind.__doc__.startswith(f"{kind.__name__}(")
    s = resolve(Query("llama-3.1-8b", "h100-sxm-80gb", 1, 1, draft=DRAFTS[word], alpha=0.7))
    assert s.draft.name == DRAFTS[word] or s.draft.name.startswith(word)
    last = min(4, s.draft.max_gamma or 4)
    gammas = np.arange(last + 1)
    batches = np.array([[1.0], [64.0]])[..., None]
    contexts = np.array([512.0, 8192.0])[:, None]
    grid = predict(s, Workload.of(batches, contexts, gammas), last)
    assert np.all(grid.speedup[..., 0] == 1.0)
    assert np.all(np.diff(grid.iteration_s, axis=-1) > -1e-12)  # the host may take longer than any of them
    for b, batch in enumerate((1.0, 64.0)):
        for c, context in enumerate((512.0, 8192.0)):
            for gamma in gammas:
                one = predict(s, Workload.of(batch, context, gamma), last)
                assert one.speedup == pytest.approx(grid.speedup[b, c, gamma], rel=1e-12)
                assert int(one.gamma_optimal) == grid.gamma_optimal[b, c, gamma]
                if gamma:
                    assert speedups(s, batch, context, np.array([gamma]))[..., 0] == pytest.approx(
                        float(one.speedup)
                    )
    draft_bytes = s.draft.own_weight_bytes(s.draft_shard)
    assert (draft_bytes == 0) is s.draft.shares_weights
    a = whatif("llama-3.1-8b", "h100-sxm-80gb", 8, 4096, 2, draft=DRAFTS[word], alpha=0.7).as_dict()
    assert a["memory"]["draft_weight_bytes"] == draft_bytes
    assert a["draft_setup_s"] >= 0


ASKED = {"model": "llama-3.1-8b", "hardware": "h100-sxm-80gb"}


@pytest.mark.parametrize("word", DRAFTS)
def test_every_verb_answers_about_a_draft(word: str) -> None:
    draft = DRAFTS[word]
    at = {**ASKED, "draft": DRAFTS[word], "rate": "0.7"}
    assert schedule(**at, context=8192, max_batch=4).as_dict()["tables"]
    served = traffic(**at, input_len=1024, output_len=128, max_concurrency="1,4", gamma=2).as_dict()
    assert [row["concurrency"] for row in served["rows"] if row["gamma"]] == [1, 4]
    advice = advise(**ASKED, context=8192, batch="1,4", rate={draft: 0.7}, any_draft=True).as_dict()
    assert advice["candidates"] > 1
    assert advice["skipped"] == []


def test_a_search_over_one_kv_method_asks_it_only_of_drafts_that_read_a_cache() -> None:
    """And a draft kind without a measured acceptance is skipped, not refused."""
    skipped = advise(**ASKED, context=8192, batch="1,4", draft_kv="quest:1024").as_dict()["skipped"]
    for word, kind in kinds().items():
        methods = [row["draft_kv"].partition(":")[0] for row in skipped if row["draft"] == word]
        assert set(methods) <= {"quest" if kind.reads_cache else "full"}, word


# Draft-length policies.

SERVED: dict[str, Any] = {"model": "llama-3.1-8b", "hardware": "h100", "input_len": 2048, "output_len": 200}


@pytest.mark.parametrize("name", policies())
@pytest.mark.parametrize(
    "load", [{"request_rate": (1.0, 8.0)}, {"max_concurrency": (1, 64)}], ids=["open", "closed"]
)
def test_a_policy_answers_at_every_load_and_is_replayed(name: str, load: dict[str, Any]) -> None:
    """Named in rows, or by the length that it chose; a table has no more tokens than the search may try."""
    policy = policies()[name]
    assert policy.help
    assert policy.source
    assert policy.__doc__
    question = SERVED | load | {"draft": "eagle", "alpha": 0.7, "gamma": name, "max_gamma": 4}
    answer = traffic(**question, replay=True, num_prompts=50)
    at = [row.request_rate or row.concurrency for row in answer.rows if row.gamma == name]
    if not policy.noun:  # a fixed length at each load
        assert not at
        assert {row.gamma for row in answer.rows} <= set(range(5))
    else:
        assert in_words(name) == policy.noun
        assert at == list(next(iter(load.values())))
        assert answer.replay is not None
        assert name in {row.gamma for row in answer.replay}
        table = next(limits.table for limits in answer.drafts if limits.gamma == name)
        assert table is None or max(tokens for _, _, tokens in table) <= 4


@pytest.mark.parametrize("name", policies())
def test_a_policy_replays_a_trace(name: str, tmp_path: Path) -> None:
    """Of requests of other lengths than the question's, at the rate that is asked for."""
    trace = tmp_path / "trace.csv"
    lines = [f"{second},{500 + 7 * second},{60 + second}" for second in range(40)]
    trace.write_text("\n".join(["arrival_s,input_tokens,output_tokens", *lines]))
    question = SERVED | {
        "draft": "eagle",
        "alpha": 0.7,
        "gamma": name,
        "request_rate": 4.0,
        "trace": str(trace),
    }
    answer = traffic(**question)
    assert answer.replay is not None
    assert [row.gamma for row in answer.replay] == [row.gamma for row in answer.rows]
    assert {row.request_rate for row in answer.replay} == {4.0}


# Engines.


@pytest.mark.parametrize("name", serving_engines())
def test_an_engine_answers_with_its_own_constants_or_says_whose(name: str) -> None:
    """Borrowed constants: much wider intervals than the lender's, no sure verdict, `transferred`, and a
    warning.
    """
    engine = serving_engines()[name]
    assert engine_catalogue.CATALOGUE.faults(engine_catalogue.load(name, "name")) == []
    assert engine.makers
    hardware = "h100" if "NVIDIA" in engine.makers else "m4-max"
    point = {"model": "llama-3.1-8b", "hardware": hardware, "batch": 4, "context": 2048, "alpha": 0.7}
    draft = next(iter(engine.drafts.keys() & {"eagle3", "ngram", "dspark"}))
    answer = whatif(**point, draft=draft, gamma=3, engine=name)
    if engine.constants_of is None:
        return
    lender = whatif(**point, draft=draft, gamma=3, engine=engine.constants_of)
    interval = answer.speedup_interval
    lent = lender.speedup_interval
    assert interval
    assert lent
    assert interval[1] / interval[0] > 1.2 * lent[1] / lent[0]
    step = answer.ar_tpot_interval
    lent_step = lender.ar_tpot_interval
    assert step
    assert lent_step
    assert math.log(step[1] / step[0]) > 2.0 * math.log(lent_step[1] / lent_step[0])
    assert answer.verdict not in ("pays", "does_not_pay")
    assert answer.calibration.kind == "transferred"
    assert any("are borrowed" in warning for warning in answer.warnings)
