"""llama.cpp: which calibration answers, its builds, the mixes it is asked with, and published steps."""

from functools import partial

import pytest

from perfmodel.answers.advice.advise import advise
from perfmodel.answers.advice.schedule import schedule
from perfmodel.answers.point.ops import ops
from perfmodel.answers.point.whatif import whatif
from perfmodel.answers.question import Named, Query
from perfmodel.errors import InputError
from perfmodel.specs import calibration_of, hub_id, is_gguf, load_gpu, load_model, parse_engine, release
from tests.refusals import refused


@pytest.mark.parametrize(
    ("hardware", "question", "name"),
    [
        ("m1-max", {}, "apple-m1-max-64gb.llamacpp"),
        ("rtx-3090", {}, "a100-sxm-80gb.vllm"),
        ("rtx-3090", {"gguf": True}, "rtx-3090-24gb.llamacpp"),
        ("rtx-4090", {"engine": "llamacpp@b10451"}, "rtx-4090-24gb.llamacpp"),
        ("rtx-5060-ti", {"engine": "llamacpp"}, "rtx-5060-ti-16gb.llamacpp"),
        ("mi100", {"engine": "llamacpp"}, "mi50-32gb.llamacpp"),
        ("h200", {"engine": "llamacpp"}, "h800-sxm-80gb.llamacpp"),
    ],
)
def test_the_nearest_device_of_the_maker_answers(
    hardware: str, question: dict[str, object], name: str
) -> None:
    assert calibration_of(load_gpu(hardware), **question).name == name  # type: ignore[arg-type]


def test_builds_sort_and_nothing_else_names_one() -> None:
    assert release("b9999") < release("b10000")
    assert parse_engine("llamacpp@b10451") == "llamacpp@b10451"
    for name in ("llamacpp@0.3", "llamacpp@b", "llamacpp@"):
        refused("a build of it, llamacpp@bNNNN", parse_engine, name)


def test_a_checkpoint_is_asked_as_the_mix_that_llama_cpp_takes() -> None:
    def weights(model: str, **more: object) -> str:
        return Named.of(Query(model, "rtx-5090", 1, 1024, **more)).target.weights  # type: ignore[arg-type]

    assert weights("llama-3.1-8b", engine="llamacpp") == "q4_k_m"
    assert weights("gpt-oss-20b", engine="llamacpp") == "mxfp4_moe"
    assert weights("llama-3.1-8b") == "bf16"
    mixed = Query("unsloth/Qwen3.6-35B-A3B-GGUF:UD-Q4_K_XL", "rtx-5090", 1, 1024)
    assert Named.of(mixed).precision(mixed).weights.of("qkv").name == "q8_0"
    notes = whatif("llama-3.1-8b", "rtx-5090", 1, 1024, 0, engine="llamacpp").warnings
    assert any(warning.startswith("no weights were given: q4_k_m") for warning in notes)
    named = whatif("llama-3.1-8b", "rtx-5090", 1, 1024, 0, weights="q8_0")
    assert named.query.engine == "llamacpp"
    assert not any("weights" in warning for warning in named.warnings)
    whole = whatif("llama-3.1-8b", "rtx-5090", 1, 1024, 0, engine="llamacpp", weights="int8")
    assert whole.ar_tpot_s == named.ar_tpot_s
    assert "llama.cpp has no int8 weights: the answer uses q8_0" in whole.warnings


@pytest.mark.parametrize(
    ("tag", "model", "mix"),
    [
        ("qwen3:8b", "qwen3-8b", "q4_k_m"),
        ("llama3.1:8b-instruct-q8_0", "llama-3.1-8b", "q8_0"),
        ("qwen3:30b", "qwen3-30b-a3b", "q4_k_m"),
        ("gpt-oss:20b", "gpt-oss-20b", "mxfp4_moe"),
        ("gpt-oss:20b-q8_0", "gpt-oss-20b", "q8_0"),
        ("qwen3:30b-q8_0", "qwen3-30b-a3b", "q8_0"),  # the experts' size is left out
        ("mistral-small3.2:24b", "mistral-small-3.2-24b", "q4_k_m"),
    ],
)
def test_a_tag_of_ollama_is_a_model_in_its_mix(tag: str, model: str, mix: str) -> None:
    loaded = load_model(tag)
    assert loaded.name == model
    assert loaded.weights == mix
    answer = whatif(tag, "rtx-5090", 1, 1024, 0)
    assert answer.calibration.stack == "llamacpp"


@pytest.mark.parametrize("tag", ["foo:8b", "olmoe:1b"])
def test_a_tag_of_an_unknown_model_is_refused(tag: str) -> None:
    """olmoe-1b-7b is another size than 1b: only the size of its experts may be left out."""
    with pytest.raises(InputError, match=f"no model named '{tag.replace(':', '-')}'"):
        load_model(tag)


@pytest.mark.parametrize(
    ("typed", "model", "mix", "official"),
    [
        ("unsloth/Qwen3.6-27B-MTP-GGUF:UD-Q4_K_XL", "qwen3.5-27b", "ud-q4_k_xl", "Qwen/Qwen3.6-27B"),
        ("unsloth/Qwen3-8B-GGUF:Q4_K_XL", "qwen3-8b", "ud-q4_k_xl", "Qwen/Qwen3-8B"),
        ("ggml-org/gpt-oss-20b-GGUF", "gpt-oss-20b", "mxfp4_moe", "openai/gpt-oss-20b"),
        ("bartowski/Qwen_Qwen3-8B-GGUF:iq4_xs", "qwen3-8b", "iq4_xs", "Qwen/Qwen3-8B"),
        ("ggml-org/Qwen3-8B-Q8_0-GGUF", "qwen3-8b", "q8_0", "Qwen/Qwen3-8B"),
        ("ggml-org/Qwen3-8B-Q8_0-GGUF:Q4_K_M", "qwen3-8b", "q4_k_m", "Qwen/Qwen3-8B"),  # the asked one
        ("Llama-3.1-8B-Instruct-GGUF:F16", "llama-3.1-8b", "fp16", "meta-llama/Llama-3.1-8B-Instruct"),
    ],
)
def test_a_repository_is_its_base_model_in_the_mix_of_the_file(
    typed: str, model: str, mix: str, official: str
) -> None:
    loaded = load_model(typed)
    assert loaded.name == model
    assert loaded.weights == mix
    assert hub_id(typed) == official
    assert is_gguf(typed)
    assert not is_gguf(official)


@pytest.mark.parametrize(
    "placed",
    [
        {"cpu_moe": 18, "host_bandwidth": 50},
        {"gpu_layers": 30, "host_bandwidth": 50},
        {"layer_split": 2},
    ],
)
def test_a_placement_that_only_llama_cpp_has_names_the_engine(placed: dict[str, float]) -> None:
    question = ("gpt-oss-120b", "rtx-pro-6000", 1, 4096, 0)
    named = whatif(*question, engine="llamacpp", **placed)  # type: ignore[arg-type]
    assert whatif(*question, **placed).ar_tpot_s == named.ar_tpot_s  # type: ignore[arg-type]
    assert whatif(*question).ar_tpot_s != whatif(*question, engine="llamacpp").ar_tpot_s


def test_experts_on_the_host_are_read_there_and_leave_the_device() -> None:
    """gpt-oss-120b: 4 of 128 experts a token in each of 36 layers, 3 matrices of 2880 x 2880 at 4.25 bits."""
    layer = 128 * 3 * 2880**2 * 4.25 / 8
    question = ("gpt-oss-120b", "rtx-pro-6000", 1, 4096, 0)
    every = whatif(*question, engine="llamacpp")
    halves = [whatif(*question, engine="llamacpp", cpu_moe=18, host_bandwidth=rate) for rate in (50, 100)]
    moved_bytes = every.memory.weight_bytes - halves[0].memory.weight_bytes
    assert moved_bytes == pytest.approx(18 * layer, rel=0.01)
    read = 18 * layer * 4 / 128
    saved_s = read / 50e9  # half of 100 GB/s is reached
    assert halves[0].ar_tpot_s - halves[1].ar_tpot_s == pytest.approx(saved_s, rel=0.01)
    ideal = [whatif(*question, calibration="ideal", cpu_moe=18, host_bandwidth=rate) for rate in (50, 100)]
    assert ideal[0].ar_tpot_s - ideal[1].ar_tpot_s == pytest.approx(read / 100e9, rel=0.01), (
        "at the full rate"
    )
    none = whatif(*question, engine="llamacpp", cpu_moe=36, host_bandwidth=50)
    on_device_s = next(
        row.predicted_s
        for row in ops(*question[:4], stage="target", engine="llamacpp").ops
        if row.name == "experts"
    )
    moved_s = 2 * read / 25e9 - on_device_s
    assert none.ar_tpot_s - every.ar_tpot_s == pytest.approx(moved_s, rel=0.003), "no kernel of them starts"
    assert every.ar_tpot_s < halves[1].ar_tpot_s
    assert not any("on the host" in note for note in every.warnings)
    for half in halves:
        assert any("on the host" in note for note in half.warnings)
    for more, says in (
        ({"cpu_moe": 3}, "needs host_bandwidth"),
        ({"host_bandwidth": 50}, "host_bandwidth: needs cpu_moe or gpu_layers"),
        ({"cpu_moe": 3, "engine": "vllm", "host_bandwidth": 50}, "llamacpp, which has cpu_moe"),
    ):
        refused(says, whatif, *question, **{"engine": "llamacpp"} | more)  # type: ignore[arg-type]
    refused(
        r"0 for llama-3\.1-8b",
        whatif,
        "llama-3.1-8b",
        "3090",
        1,
        4096,
        0,
        engine="llamacpp",
        cpu_moe=1,
        host_bandwidth=50,
    )


def test_layers_on_the_host_take_its_memory_and_its_time() -> None:
    """Half of Llama-3.1-8B's 32 layers and output: half of the weights and cache at 0.5 of 50 GB/s."""
    question = ("llama-3.1-8b", "rtx-3060", 1, 4096, 0)
    more = {"engine": "llamacpp", "weights": "q4_0"}
    whole = whatif(*question, **more)  # type: ignore[arg-type]
    half = whatif(*question, **more, gpu_layers=16, host_bandwidth=50)  # type: ignore[arg-type]
    share = 1 - 16 / 33
    for name in ("weight_bytes", "kv_bytes"):
        expected = getattr(whole.memory, name) * (1 - share)
        assert getattr(half.memory, name) == pytest.approx(expected)
    step = whole.target_step
    read = (step.param_load_s + step.kv_load_s + step.activation_s) * 360e9
    expected = whole.ar_tpot_s * (1 - share) + share * read / 25e9
    assert half.ar_tpot_s == pytest.approx(expected, rel=0.02)
    alone = whatif(*question, **more, gpu_layers=99, host_bandwidth=50)  # type: ignore[arg-type]
    assert alone.ar_tpot_s == whole.ar_tpot_s


def test_the_host_takes_longer_over_verified_tokens() -> None:
    """A laptop with 40 of 65 layers on the host: 4.2 tokens/s, 1.74 times as fast with two drafted tokens
    (sudoingX/qwen38-mtp#45).
    """
    on_host = {"gpu_layers": 25, "host_bandwidth": 80, "weights": "iq4_xs", "engine": "llamacpp"}
    ask = {"draft": "mtp", "gamma": 2, "acceptance_rate": 0.9}
    a = whatif("qwen3.8-27b", "rtx-5060-laptop", 1, 1024, **ask, **on_host)  # type: ignore[arg-type]
    assert 1.0 / a.ar_tpot_s == pytest.approx(4.2, rel=0.1)
    assert a.speedup == pytest.approx(1.74, rel=0.1)


def test_devices_in_turn_have_the_memory_of_all_and_the_time_of_one() -> None:
    """Two RTX 5060 Ti with Qwen3.8-27B took 45.2 ms in turn and 27.0 ms by tensors (sudoingX/qwen38-mtp)."""
    question = {"engine": "llamacpp", "weights": "ud-q4_k_xl"}
    card = partial(whatif, "qwen3.8-27b", "rtx-5060-ti", 1, 250, 0, **question)
    one = card()
    turn = card(layer_split=2)
    split = card(tp=2)
    assert one.memory.fits is False
    assert turn.memory.fits is True
    assert one.ar_tpot_s == turn.ar_tpot_s == pytest.approx(45.2e-3, rel=0.1)
    assert split.ar_tpot_s == pytest.approx(27.0e-3, rel=0.1)
    long = whatif("qwen3.8-27b", "rtx-5060-ti", 1, 129981, 0, tp=2, **question)  # type: ignore[arg-type]
    assert long.ar_tpot_s == pytest.approx(42.2e-3, rel=0.1)
    refused(
        "tp: must be 1 with layer_split",
        whatif,
        "qwen3.8-27b",
        "rtx-5060-ti",
        1,
        250,
        0,
        layer_split=2,
        tp=2,
        **question,
    )


def test_two_cards_of_24_gib_hold_a_model_of_70b() -> None:
    """Two boards report 2 x 23.57 GiB. The compute buffer has 512 x 128 256 logits of 4 bytes and 85 MiB;
    1 GiB stays free on each.
    """
    memory = whatif(
        "llama-3.1-70b", "3090", 1, 8192, 0, weights="q4_k_m", engine="llamacpp", layer_split=2
    ).memory
    assert memory.fits
    taken = 512 * 128_256 * 4 + (85 + 1024) * 2**20
    assert memory.available_bytes == pytest.approx(2 * (23.57 * 2**30 - taken))


def test_different_cards_in_turn_have_the_memory_of_both_and_their_mean_time() -> None:
    """Two boards of one kind are that kind split by layers. With 3090 and 4090, which hold 23.57 and 23.6 GiB
    and load 936 and 1008 GB/s, a byte takes 1 / (0.49968 / 936 + 0.50032 / 1008) of a GB/s.
    """
    split = whatif("llama-3.1-70b", "3090", 1, 4096, 0, layer_split=2, engine="llamacpp", weights="q4_k_m")
    pair = whatif("llama-3.1-70b", "3090+3090", 1, 4096, 0, engine="llamacpp", weights="q4_k_m")
    assert pair.memory == split.memory
    assert pair.target_step.param_load_s == pytest.approx(split.target_step.param_load_s)
    both = load_gpu("rtx-3090+4090")
    rate = 1 / (0.499682 / 936 + 0.500318 / 1008)
    assert both.memory_bandwidth_bytes_per_s == pytest.approx(rate * 1e9, rel=1e-6)
    assert both.memory_bytes == pytest.approx((23.57 + 23.6) * 2**30)
    for whole in ("m4-max+3090", "dgx-spark+3090", "dgx-spark+strix-halo", "strix-halo+ryzen-ai-max-380"):
        refused("devices of one computer", load_gpu, whole)
    refused("engine: must be llamacpp", whatif, "qwen3-8b", "3090+4090", 1, 4096, 0, engine="vllm")
    refused("layer_split: must be 1", whatif, "qwen3-8b", "3090+4090", 1, 4096, 0, layer_split=2)
    assert load_gpu("Ryzen AI Max+ 395").name == "ryzen-ai-max-395-128gb"


@pytest.mark.parametrize(
    ("mac", "megabytes"), [("m1-max", 55663), ("m4:16gb", 11453), ("m3-pro", 28991), ("m4-max", 115448)]
)
def test_a_mac_gives_its_gpu_what_metal_reports(mac: str, megabytes: float) -> None:
    """Less the compute buffer, 512 x 151 936 logits of 4 bytes and 85 MiB, and a margin of 1 GiB."""
    memory = whatif("qwen3-4b", mac, 1, 8192, 0).memory
    taken = 512 * 151_936 * 4 + (85 + 1024) * 2**20
    assert memory.available_bytes + taken == pytest.approx(megabytes * 1e6, rel=1e-3)


def test_a_mac_is_asked_by_three_flags_for_one_sequence_and_the_default_length() -> None:
    a = advise("llama-3.1-8b", "m4-max", 16384)
    assert a.serve
    assert a.query.as_dict()["batch"] == [1, 1]
    assert "-c 18432 -np 1" in str(a.serve.llamacpp_line)
    four = advise("llama-3.1-8b", "m4-max", 16384, batch=[1, 4])
    assert four.serve
    assert "-c 73728 -np 4" in str(four.serve.llamacpp_line)
    states = {"model": "qwen3.6-27b", "hardware": "3090", "context": 8192, "engine": "llamacpp"}
    slots = advise(**states, batch=[1, 4])
    other = schedule(**states, draft="mtp")  # type: ignore[arg-type]
    assert slots.serve
    assert "-np 4" in str(slots.serve.llamacpp_line)
    assert slots.serve.llamacpp_line == other.tables[0].export.llamacpp_line  # states of 3 tokens
    smaller = states | {"hardware": "3090:22gb", "draft": "mtp", "alpha": 0.8}
    longer = schedule(**smaller).tables[0]  # type: ignore[arg-type]
    assert longer.max_tokens == 3
    assert longer.ranges[-1].high == 4
    ngram = schedule("gpt-oss-20b", "3090", 16384, draft="ngram", rate="0.4x3", engine="llamacpp").tables[0]
    assert ngram.ranges[-1].high == 4
    assert not any("by default" in note for note in ngram.export.notes)
