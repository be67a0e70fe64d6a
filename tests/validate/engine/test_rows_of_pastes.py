"""Rows, lines and requests of pasted texts at the edges of what is read, and the prompts in them."""

import re

import pytest

from perfmodel.validate.engine.formats import read_pasted
from perfmodel.validate.engine.pastes import PromptTiming, form_of
from perfmodel.validate.engine.timing import GivenFacts
from tests.refusals import refused
from tests.validate.engine.pasting import sample

INPUT = {"input": 1024}
TRTLLM = "trtllm:time_per_output_token_seconds"


@pytest.mark.parametrize(
    ("name", "change", "given", "says"),
    [
        ("llama_bench", ("120.60", "0"), {}, "-: t/s of tg128: must be above 0"),
        ("llama_server_log", ("(0.805", "(1.805"), {}, "rates from 0 to 1 that do not rise"),
        ("llama_metrics", ("predicted_total 4200", "predicted_total 0"), INPUT, "nothing was decoded"),
        ("llama_metrics", ("n_decode_total 4300", "n_decode_total 3300"), INPUT, "-: gamma: must be stated"),
        (
            "llama_speculative",
            ("n_drafted = 320", "n_drafted = 0"),
            {},
            "n_accept: must be at most n_drafted",
        ),
        ("llama_speculative", ("decoded  256", "decoded  176"), {}, "n_accept: must be at most n_drafted"),
        ("llama_speculative", ("encoded", "x"), {}, "-: input: must be stated"),
        ("mtp_bench", ("tok/s=54.4", "tok/s=0"), INPUT, "acc: must be at most draft"),
        ("mtp_bench", ("draft= 186", "draft= 100"), INPUT, "acc: must be at most draft"),
        ("mlx_lm", ("41.382", "0"), {}, "-: tokens-per-sec: must be above 0"),
        ("trtllm_metrics", ("157.2", "0"), {"batch": 4, **INPUT}, "nothing was decoded"),
        ("trtllm_metrics", ("39920.0", "0"), {"batch": 4, **INPUT}, "nothing was decoded"),
        ("mlx_dspark", ("43.2", "0"), {"gamma": 7, **INPUT}, "-: tokens per second: must be above 0"),
        ("sglang_one_batch", ("1221.37", "0"), {}, "-: median latency: must be above 0"),
    ],
)
def test_what_no_program_measures_is_one_line(name, change, given, says) -> None:
    changed = sample(name).replace(*change)
    assert changed != sample(name)
    refused(re.escape(says), read_pasted, "-", changed, GivenFacts(**given))


@pytest.mark.parametrize(
    ("name", "change", "given", "gammas"),
    [
        # drafts that stop early are shorter than the printed positions
        ("llama_server_log", ("259 generated", "180 generated"), {}, [2]),
        ("mtp_bench", ("draft= 186 acc= 128", "draft= 0 acc= 0"), INPUT, [0, 3]),
        ("llama_metrics", ("n_busy_slots_per_decode 1", "n_busy_slots_per_decode 0.9"), INPUT, [0]),
        # an answer of one token has no step
        ("llama_server_log", ("254 tokens", "1 tokens"), {}, []),
        ("llama_sweep_bench", ("|   512 |    128 |      0 |", "|   512 |    0 |      0 |"), {}, [0]),
        ("llama_batched_bench", ("|   128 |    128 |    1 |", "|   128 |    0 |    1 |"), {}, [0]),
    ],
)
def test_the_draft_lengths_of_the_rows_that_are_read(name, change, given, gammas) -> None:
    changed = sample(name).replace(*change)
    assert changed != sample(name)
    assert [step.gamma for step in read_pasted("-", changed, GivenFacts(**given))] == gammas


def test_a_server_with_eight_slots_gains_one_token_in_each_of_them() -> None:
    page = sample("llama_metrics").replace("n_decode_total 4300", "n_decode_total 530")
    page = page.replace("n_busy_slots_per_decode 1", "n_busy_slots_per_decode 8")
    (timing,) = read_pasted("-", page, GivenFacts(**INPUT))
    assert (timing.batch, timing.gamma) == (8, 0)


@pytest.mark.parametrize("name", ["llama_metrics", "trtllm_metrics", "llama_benchy", "ollama"])
def test_an_iteration_with_a_stated_draft_lasts_for_all_of_its_tokens(name: str) -> None:
    facts = {"batch": 1, **INPUT}
    alone = read_pasted("-", sample(name), GivenFacts(**facts))
    drafting = read_pasted("-", sample(name), GivenFacts(gamma=2, accepted=2.5, **facts))
    assert [step.seconds for step in drafting] == pytest.approx([2.5 * step.seconds for step in alone])


def test_the_acceptance_in_a_report_of_trtllm_bench_and_the_prompts_between_its_tokens() -> None:
    report = f"{sample('trtllm_bench')}\n[AR] AVERAGE: 2.2\n"
    (timing,) = read_pasted("-", report, GivenFacts(gamma=3))
    assert (timing.gamma, timing.tokens_per_iteration, timing.ttft_s) == (3, 2.2, 0.035)


def test_the_first_token_and_the_other_requests_of_a_table_of_aiperf() -> None:
    table = sample("genai_perf")
    (timing,) = read_pasted("-", table.replace("GenAI-Perf", "AIPerf"), GivenFacts())
    assert timing.ttft_s == pytest.approx(0.0623)
    (of_one_wave,) = read_pasted("-", table.replace("80.00 │", "8.00 │"), GivenFacts())
    assert of_one_wave.prefill_share < timing.prefill_share


def test_the_first_request_of_a_cut_log_has_the_prompt_that_the_user_states() -> None:
    log = sample("llama_server_log")
    answer = next(line for line in log.splitlines() if line.startswith("       eval time"))
    steps = read_pasted("-", f"{answer}\n{log}", GivenFacts(input=100))
    assert [(step.context, step.gamma) for step in steps] == [(100 + 253 / 2, 0), (1520 + 253 / 2, 3)]


def test_a_refused_request_of_several_is_numbered() -> None:
    log = sample("llama_server_log")
    twice = log + log.replace("254 tokens", "168 tokens")
    refused("-: request 2: draft acceptance: must be below the tokens", read_pasted, "-", twice, GivenFacts())


def test_accepted_tokens_of_llama_cpp_stay_within_the_draft() -> None:
    """Ten iterations accept 35 drafted tokens: drafts of 3, and 4 tokens an iteration."""
    log = "eval time = 1000 ms / 46 tokens\ndraft acceptance rate = 1.0 ( 35 accepted / 35 generated)\n"
    counts = "decoded 45 tokens in 1.0 seconds\nn_drafted = 35\nn_accept = 35\n"
    for text in (log, counts):
        (timing,) = read_pasted("-", text, GivenFacts(**INPUT))
        assert (timing.gamma, timing.tokens_per_iteration) == (3, 4.0)


@pytest.mark.parametrize(
    ("name", "change", "prompts"),
    [
        ("llama_sweep_bench", ("", ""), [(512, 0, 0.42), (512, 8192, 0.47)]),
        (
            "llama_sweep_bench",
            ("|   512 |    128 |      0 |", "|   0 |    128 |      0 |"),
            [(512, 8192, 0.47)],
        ),
        ("llama_batched_bench", ("", ""), [(128, 0, 0.108)]),
        ("llama_batched_bench", ("|   128 |    128 |    1 |", "|   0 |    128 |    1 |"), []),
        ("llama_server_log", ("1834.20 ms", "0.00 ms"), []),
        ("sglang_one_batch_server", ("", ""), [(1024, 0, 1024 / 9309.09)]),
        ("mlx_lm", ("701.321", "0"), []),
    ],
)
def test_the_timed_prompts(name, change, prompts) -> None:
    text = sample(name).replace(*change)
    timed = form_of(text).prompts("-", text)
    assert [(prompt.tokens, prompt.cached) for prompt in timed] == [prompt[:2] for prompt in prompts]
    assert [prompt.seconds for prompt in timed] == pytest.approx([prompt[2] for prompt in prompts])


@pytest.mark.parametrize(("batch", "timed"), [("1", [PromptTiming(1024, 0.0, 2.0)]), ("4", [])])
def test_prompts_of_several_sequences_of_mlx_share_a_pass(batch: str, timed: list[PromptTiming]) -> None:
    text = f"Timing with prompt_tokens=1024, generation_tokens=256, batch_size={batch}.\n"
    text += "Averages: prompt_tps=512, generation_tps=160.000, peak_memory=9.812\n"
    assert form_of(text).prompts("-", text) == timed


def test_layers_of_experts_on_the_host_are_named_in_their_order() -> None:
    rows = "".join(f"| {layers} | tg128 | 61.2 |\n" for layers in (20, 9, 0))
    table = f"| n_cpu_moe | test | t/s |\n|---|---|---|\n{rows}"
    note = form_of(table).note(table, GivenFacts())
    assert note.startswith("n_cpu_moe is 9 or 20, but")
    assert "--cpu-moe 9 " in note


@pytest.mark.parametrize(
    "line",
    [
        "Avg latency: 0.9 seconds",
        "Throughput: 3.2 requests/s, 1024.0 total tokens/s",
        "1/1 [00:01, est. speed input: 20.1 toks/s, output: 95.1 toks/s]",
    ],
)
def test_times_of_whole_requests_are_refused(line: str) -> None:
    refused("times prompts and outputs together", read_pasted, "-", line, GivenFacts())


def test_iterations_of_a_log_have_their_median_and_an_older_page_its_name() -> None:
    first, *others = sample("trtllm_log").splitlines()
    log = "\n".join((first.replace("7.51ms", "30.0ms"), *others))
    (timing,) = read_pasted("-", log, GivenFacts(**INPUT))
    assert timing.seconds == pytest.approx(0.00751)
    page = sample("trtllm_metrics").replace("trtllm:", "trtllm_")
    (timing,) = read_pasted("-", page, GivenFacts(batch=4, **INPUT))
    assert timing.seconds == pytest.approx(157.2 / 39920)


def test_lines_of_draft_lengths_share_their_rate_among_the_stated_requests() -> None:
    text = sample("draft_length_lines").replace("256 out:", "256 out, concurrency 4:")
    steps = read_pasted("-", text, GivenFacts())
    assert [(step.batch, step.gamma, step.context) for step in steps] == [(4, k, 640) for k in range(4)]
    assert steps[0].seconds == pytest.approx(4 / 38.7)


def test_the_last_line_before_a_block_is_its_heading() -> None:
    alone = sample("serving_block").partition("---------------Speculative")[0]
    text = (
        f"With MTP (n=2) it is faster:\nWithout MTP:\n{alone}\nWithout MTP it was slow\nMTP (n=2):\n{alone}"
    )
    assert [step.gamma for step in read_pasted("-", text, GivenFacts(accepted=2.0))] == [0, 2]


def test_a_block_of_sglang_counts_drafts_by_its_accept_length() -> None:
    block = sample("serving_block").partition("Per-position")[0]
    of_sglang = "\n".join(line for line in block.splitlines() if not line.startswith("Draft"))
    refused("-: gamma: must be stated", read_pasted, "-", of_sglang, GivenFacts())
    barely = of_sglang.replace("length:                       2.50", "length: 1.50")
    refused("-: gamma: must be stated", read_pasted, "-", barely, GivenFacts())
    for text, given, counted in (
        (block, {}, (3, 2.5)),
        (block, {"accepted": 2.0}, (3, 2.5)),
        (block, {"gamma": 4}, (4, 2.5)),
        (of_sglang, {"gamma": 2}, (2, 2.5)),
    ):
        (timing,) = read_pasted("-", text, GivenFacts(**given))
        assert (timing.gamma, timing.tokens_per_iteration) == counted
    shared = f"Concurrency: 6.4\n{of_sglang.partition('Result')[2]}"
    shared = f"Serving Benchmark Result\n{shared}"
    (timing,) = read_pasted("-", shared, GivenFacts(gamma=2))
    assert timing.batch == 8
