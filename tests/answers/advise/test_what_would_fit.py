"""A model that does not fit: each change that an advice names is one that makes it fit."""

import re
from dataclasses import replace

import pytest

from perfmodel.answers.advice import ways
from perfmodel.answers.advice.advise import advise
from perfmodel.answers.advice.alternatives import Alternative
from perfmodel.answers.advice.servers.base import MODEL
from perfmodel.answers.advice.servers_instead import Instead, ServerOfWay
from perfmodel.answers.advice.ways import Way
from perfmodel.answers.point.remedies import switch_text


def test_a_degree_that_does_not_run_is_explained() -> None:
    why = "layouts (tp: experts of minimax-m2 are 1536 wide in blocks of 128, and 8 devices"
    assert why in advise("minimax-m2", "h200", context=4096, tp=8).reason


def test_sizes_that_are_nearly_equal_have_two_decimals() -> None:
    asked = {"context": 131_072, "tp": (1,), "memory_fraction": 0.401}
    said = advise("llama-3.1-8b", "h100", **asked).reason
    needed, room = re.search(r"together (33\.2\d) GB, but has room for (33\.\d\d) GB", said).groups()
    assert needed > room
    assert "together 33.2 GB, but has room for 24.6 GB" in (
        advise("llama-3.1-8b", "h100", **asked | {"memory_fraction": 0.3}).reason
    )


def test_a_cache_that_fits_only_without_the_part_for_states_is_explained() -> None:
    """SGLang keeps 0.9 / 1.9 of the pool for the states of Nemotron-H. Its weights and one sequence need less
    than the memory, but the caches of 131,072 tokens need more than the other 1 / 1.9.
    """
    asked = {"engine": "sglang", "batch": 1}
    said = advise("nemotron-h-8b", "l4", context=131_072, **asked).reason
    words = (
        r"and ([\d.]+) GB of KV cache for one sequence, but of the ([\d.]+) GB that the weights leave 53% "
    )
    cache, pool = map(
        float, re.search(words + "hold caches and the rest states; it would fit", said).groups()
    )
    assert pool / 1.9 < cache < pool
    assert "together" not in said
    longest = int(re.search(r"--context (\d+)", said)[1])
    assert advise("nemotron-h-8b", "l4", context=longest, **asked).verdict != "infeasible"


@pytest.mark.parametrize(
    ("model", "hardware", "tp"),
    [("llama-3.1-8b", "rtx-4090", 1), ("llama-3.1-70b", "rtx-4090", 2), ("deepseek-v3", "h100", 8)],
)
def test_what_is_said_to_fit_is_answered_when_asked(model: str, hardware: str, tp: int) -> None:
    said = advise(model, hardware, context=65_536, tp=tp).reason
    assert "together" in said  # the sum is printed
    flags = [
        re.findall(r"--([\w-]+) ([\w-]+)", way) for way in re.findall(r"with ((?:--[\w-]+ [\w-]+ ?)+)", said)
    ]
    changes = [{name.replace("-", "_"): value for name, value in each} for each in flags]
    device = re.search(r"on (?:\d+ x )?([a-z][\w-]+)$", said.partition(";")[2].removesuffix(f"; {said}"))
    if device:
        changes.append({"hardware": device[1]})
    assert changes
    question = {"model": model, "hardware": hardware, "context": 65_536, "tp": tp, "batch": 1}
    for change in changes:
        if "context" in change:
            change["context"] = int(change["context"])
        assert advise(**question | change).chosen is not None, change


def test_only_a_machine_that_can_be_had_is_named_for_more_memory() -> None:
    """Eight superchips of one chip a node are no server; what is named stands in one box."""
    answer = advise(model="deepseek-v3.2", hardware="h100", gpus=8)
    assert "gh200" not in answer.reason
    assert "on 8 x h200-sxm-141gb" in answer.reason
    assert not any("does not fit in" in text for text in answer.warnings), "the reason tells it"


def test_what_would_fit_is_in_the_engines_own_formats() -> None:
    """GGUF mixes and layers over two cards for llama.cpp; 4-bit floats and a device of its kind for
    Blackwell.
    """
    file = advise("qwen3-32b", "rtx-3090", engine="llamacpp", weights="q8_0").reason
    assert "with --weights q4_k_m, with --gpu-layers " in file
    assert ", with --layer-split 2 or on rtx-" in file
    server = advise("qwen3-32b", "rtx-5090").reason
    assert "with --weights nvfp4, with --tp 4 or on rtx-pro-6000-96gb" in server


@pytest.mark.parametrize(
    ("model", "weights", "flag", "fewer"),
    [("qwen3.6-35b-a3b", "q4_k_m", "cpu_moe", -1), ("qwen3-32b", "q4_k_m", "gpu_layers", 1)],
)
def test_the_fewest_layers_on_the_host_that_make_room_are_named(
    model: str, weights: str, flag: str, fewer: int
) -> None:
    question = {"model": model, "hardware": "rtx-3060", "weights": weights, "context": 4096, "batch": (1,)}
    match = re.search(
        rf"with --{flag.replace('_', '-')} (\d+) --host-bandwidth GB/s", advise(**question).reason
    )
    assert match is not None
    number = int(match[1])
    host = {"host_bandwidth": 60}
    assert advise(**question, **host, **{flag: number}).chosen is not None
    assert advise(**question, **host, **{flag: number + fewer}).chosen is None


def test_no_smaller_mix_is_named_for_experts_that_stay_in_mxfp4() -> None:
    """The files of gpt-oss in smaller mixes are hardly smaller; experts on the host make room."""
    reason = advise("gpt-oss-20b", "rtx-3060", engine="llamacpp", context=16384).reason
    assert "--weights" not in reason
    assert "it would fit with --cpu-moe 2" in reason


def test_what_fits_is_named_with_eight_bits_before_four_and_with_the_longest_context() -> None:
    """An RTX 4090 has no room for 100K tokens beside 16 GB of weights."""
    question = {"model": "llama-3.1-8b", "hardware": "rtx-4090"}
    said = advise(**question, context=102_400).reason
    changes = ["--weights fp8 --kv-dtype fp8", "--weights int4-g128", "--memory-fraction 0.95 --kv-dtype fp8"]
    places = [said.index(change) for change in changes]
    assert places == sorted(places)
    longest = int(re.search(r"--context (\d+)", said)[1])
    assert advise(**question, context=longest).chosen is not None
    assert advise(**question, context=longest + 1024).chosen is None


EIGHT_BITS_OF_ONE = ("--kv-dtype fp8", "--weights fp8")
BOTH = "--weights fp8 --kv-dtype fp8"
FOUR_BITS = "--weights int4-g128"


@pytest.mark.parametrize(
    ("helps", "named"),
    [
        ((), []),
        ((*EIGHT_BITS_OF_ONE, BOTH, FOUR_BITS), [*EIGHT_BITS_OF_ONE]),
        (("--weights fp8", BOTH, FOUR_BITS), ["--weights fp8"]),
        (("--kv-dtype fp8", BOTH, FOUR_BITS), ["--kv-dtype fp8", FOUR_BITS]),
        ((BOTH, FOUR_BITS, f"{FOUR_BITS} --kv-dtype fp8"), [BOTH, FOUR_BITS]),
        ((FOUR_BITS, f"{FOUR_BITS} --kv-dtype fp8"), [FOUR_BITS]),
        ((BOTH, f"{FOUR_BITS} --kv-dtype fp8"), [BOTH]),
        ((f"{FOUR_BITS} --kv-dtype fp8",), [f"{FOUR_BITS} --kv-dtype fp8"]),
    ],
)
def test_smaller_formats_of_both_are_named_if_eight_bits_of_neither_alone_suffice(
    monkeypatch, helps, named
) -> None:
    monkeypatch.setattr(ways, "smaller_caches", lambda largest: ("fp8",))
    monkeypatch.setattr(ways, "_smaller_weights", lambda query, largest: ["fp8", "int4-g128"])
    found = ways._formats(None, None, lambda **changes: switch_text(changes) in helps)
    assert [way.text for way in found] == [f"with {flags}" for flags in named]


def test_changes_whose_servers_have_no_draft_say_how_to_find_one() -> None:
    hint = "No draft of llama-3.1-70b has a known acceptance and gains here"
    assert any(
        each.text.startswith(hint) for each in advise("llama-3.1-70b", "h100", context=8192).alternatives
    )


LARGE = {"model": "qwen3.5-122b-a10b", "hardware": "4xh100", "engine": "sglang"}


@pytest.mark.parametrize(
    ("load", "words"),
    [
        ({"context": 100_000}, "With --weights fp8: "),
        ({"clients": 20, "input_len": 100_000, "output_len": 500}, "With --weights fp8 4 GPUs suffice: "),
    ],
)
def test_the_change_that_needs_no_other_gpus_is_the_one_to_run_first(
    load: dict[str, int], words: str
) -> None:
    answer = advise(**LARGE | load)
    assert answer.run_first == "Run the server with --weights fp8 first: it needs no other GPUs"
    first = answer.alternatives[0]
    assert first.text.startswith(words)
    assert "Qwen/Qwen3.5-122B-A10B-FP8" in first.line


def test_where_only_other_gpus_would_do_none_of_them_is_the_first() -> None:
    answer = advise("exaone-4.0-32b", "rtx-4090", context=131_072, batch=(1,), engine="sglang")
    assert len([each for each in answer.alternatives if each.line]) > 1
    assert answer.run_first is None


def test_more_of_the_memory_is_the_last_resort() -> None:
    """An engine that fills its GPUs is the first to crash: formats and other GPUs come before it."""
    answer = advise("qwen2.5-72b", "2xa100", context=32_768)
    assert answer.reason.endswith(" or as a last resort with --memory-fraction 0.95")
    openings = [each.text for each in answer.alternatives]
    last = next(at for at, text in enumerate(openings) if text.startswith("As a last resort with"))
    assert all("--memory-fraction" not in text for text in openings[:last])
    assert openings[last - 1].startswith("With --context ")
    assert "--memory-fraction" not in answer.run_first


@pytest.mark.parametrize(
    ("model", "hardware", "context", "first"),
    [
        ("qwen2.5-72b", "2xa100", 32_768, "--weights fp8"),  # --kv-dtype fp8 alone has room for one sequence
        ("llama-3.1-70b", "h100", 8192, "--weights int4-g128"),  # eight bits have room for one sequence
        ("mixtral-8x7b", "h100", 8192, "--weights fp8"),  # four bits are less than twice as good
    ],
)
def test_a_much_better_server_comes_before_one_that_loses_less_precision(
    model: str, hardware: str, context: int, first: str
) -> None:
    answer = advise(model, hardware, context=context)
    assert answer.run_first == f"Run the server with {first} first: it needs no other GPUs"


def test_a_format_with_a_seat_for_every_client_comes_before_one_that_only_fits() -> None:
    """With --kv-dtype fp8 alone, nine of ten clients wait for the only seat."""
    answer = advise("llama-3.1-70b", "2xh100", clients=10, input_len=30_000, output_len=2000)
    assert answer.run_first == "Run the server with --weights fp8 first: it needs no other GPUs"
    assert " --max-num-seqs 10" in answer.first_line


def test_the_stated_batch_must_fit_after_a_change() -> None:
    answer = advise("llama-3.1-70b", "2xh100", context=32_768, batch=(8,))
    assert "batch 8 would fit with --weights fp8 --kv-dtype fp8, " in answer.reason
    assert "--max-num-seqs 8" in answer.first_line


FP8 = Way("with --weights fp8", {"weights": "fp8"})
FP8_SERVER = Alternative("With --weights fp8: TP 1", 1, "vllm serve some/checkpoint")
BOTH = Way("with --weights fp8 --kv-dtype fp8", {"weights": "fp8", "kv_dtype": "fp8"})
BOTH_SERVER = Alternative("With --weights fp8 --kv-dtype fp8: TP 1", 1, "vllm serve some/checkpoint --kv fp8")
OTHER_SERVER = Alternative("On h200: TP 1", 1, "vllm serve another/checkpoint")


def test_a_single_server_needs_no_first_one() -> None:
    of_ways = (ServerOfWay(FP8, FP8_SERVER),)
    assert Instead((FP8_SERVER,), of_ways, (FP8,)).run_first() is None
    without_line = replace(OTHER_SERVER, line=None)
    assert Instead((FP8_SERVER, without_line), of_ways, (FP8,)).run_first() is None
    first = Instead((OTHER_SERVER, FP8_SERVER), of_ways, (FP8,)).run_first()
    assert first.text == "Run the server with --weights fp8 first: it needs no other GPUs"
    assert first.line == FP8_SERVER.line


def test_the_server_to_run_first_has_its_change_and_no_other() -> None:
    """Both sentences begin with the same flag."""
    of_ways = (ServerOfWay(BOTH, BOTH_SERVER), ServerOfWay(FP8, FP8_SERVER))
    found = Instead((BOTH_SERVER, FP8_SERVER), of_ways, (FP8, BOTH))
    assert found.run_first().line == FP8_SERVER.line


def test_servers_for_the_load_replace_those_of_their_change_without_a_load() -> None:
    of_ways = (ServerOfWay(BOTH, BOTH_SERVER), ServerOfWay(FP8, FP8_SERVER))
    found = Instead((OTHER_SERVER, BOTH_SERVER, FP8_SERVER), of_ways, (BOTH, FP8))
    loaded = replace(FP8_SERVER, text="With --weights fp8 2 GPUs suffice: TP 2", line="vllm serve -tp 2")
    first = found.with_first(FP8, (loaded,))
    assert first.alternatives == (loaded, OTHER_SERVER, BOTH_SERVER)
    assert first.run_first().line == loaded.line
    assert found.with_first(FP8, ()) == found


def test_a_line_that_names_no_checkpoint_is_not_run_first() -> None:
    unnamed = replace(FP8_SERVER, line=f"vllm serve {MODEL}")
    of_ways = (ServerOfWay(FP8, unnamed), ServerOfWay(BOTH, BOTH_SERVER))
    found = Instead((unnamed, BOTH_SERVER), of_ways, (FP8, BOTH))
    assert found.run_first().line == BOTH_SERVER.line


def test_where_no_context_fits_smaller_formats_are_named_with_the_longest_that_does() -> None:
    question = {"model": "devstral-small-2-24b", "hardware": "rtx-4090", "batch": (1,)}
    said = advise(**question, context=131_072).reason
    weights, cache, context = re.search(
        r"or with --weights (\S+) --kv-dtype (\S+) --context (\d+)$", said
    ).groups()
    smaller = question | {"weights": weights, "kv_dtype": cache}
    assert advise(**smaller, context=int(context)).chosen is not None
    assert advise(**smaller, context=int(context) + 1024).chosen is None


def test_formats_with_which_less_than_half_of_the_context_fits_are_not_the_last_tried() -> None:
    """With weights of 4 bits alone 5,120 tokens fit, 45 % of the context."""
    said = advise("llama-3.1-70b", "l40s", context=11_264).reason
    assert said.endswith("or with --weights int4-g128 --kv-dtype fp8 --context 10240")
    shorter = {"weights": "int4-g128", "context": 5120}
    assert advise("llama-3.1-70b", "l40s", **shorter).chosen is not None
    assert advise("llama-3.1-70b", "l40s", **shorter | {"context": 6144}).chosen is None


def test_four_bits_are_named_in_the_format_of_a_known_checkpoint() -> None:
    """No NVFP4 checkpoint of this model is known, but one with 4-bit integers is."""
    answer = advise("qwen3-coder-30b-a3b", "rtx-5090", weights="fp8", batch=(4,), context=16_384)
    assert "batch 4 would fit with --weights int4-g128, " in answer.reason
    assert answer.run_first.startswith("Run the server with --weights int4-g128 first")
    assert "-AWQ" in answer.first_line


def test_other_devices_that_would_fit_are_said_with_the_load() -> None:
    load = {"clients": 8, "input_len": 16384, "output_len": 1024}
    answer = advise("qwen3-30b-a3b-2507", "rtx-5090", gpus=1, **load)
    _, more, other = (each.text for each in answer.alternatives)
    on_four = advise("qwen3-30b-a3b-2507", "rtx-5090", gpus=4, **load).chosen
    assert more.startswith(f"With --gpus 4 these suffice: {on_four.layout}, no draft, TTFT 4.")
    assert f"TPOT {1e3 * on_four.tpot_s:.0f} ms" in more
    assert other.startswith("On rtx-pro-6000-96gb 1 GPU suffices: TP 1, eagle3, ")
