"""Every word for a draft, a heading, a unit or a prefix that pasted texts can have."""

import pytest

from perfmodel.validate.engine.drafting_words import is_drafting, stated
from perfmodel.validate.engine.load_words import load
from perfmodel.validate.engine.logged_config import LoggedConfig
from perfmodel.validate.engine.logged_load import LoggedLoad
from perfmodel.validate.engine.pastes import form_of
from perfmodel.validate.engine.serve_command import question_of
from perfmodel.validate.engine.text import plain
from perfmodel.validate.engine.timing import GivenFacts, Timing
from tests.refusals import refused


def steps(text: str, **facts: float) -> list[Timing]:
    form = form_of(plain(text))
    assert form is not None
    return form.read("-", plain(text), GivenFacts(**facts))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "words",
    ["no eagle3", "vanilla", "plain", "no spec", "MTP off", "w/o MTP", "autoregressive", "non-speculative"],
)
def test_words_for_decoding_without_a_draft(words: str) -> None:
    assert is_drafting(words) is False


@pytest.mark.parametrize("words", ["medusa", "NextN", "dflash", "dspark", "n-gram", "speculative"])
def test_words_for_decoding_with_a_draft(words: str) -> None:
    assert is_drafting(words) is True


@pytest.mark.parametrize(
    "words",
    [
        "n=4, acceptance ratio 0.5",
        "n=4, accept rate was 50 %",
        "n=4, acceptance length of 3",
        "n=4, accept length was 3",
        "n=4, acceptance length is 3",
        "n=4, tokens per iteration: 3",
        "n=4, tokens per step 3",
    ],
)
def test_words_for_three_tokens_per_iteration(words: str) -> None:
    assert stated(words) == GivenFacts(gamma=4, accepted=3.0)


@pytest.mark.parametrize("words", ["nextn=3", "MTP(3)", "num_draft_tokens: 3", "3 drafted tokens"])
def test_words_for_a_draft_length(words: str) -> None:
    assert stated(words) == GivenFacts(gamma=3)


@pytest.mark.parametrize(
    "words",
    [
        "8 concurrent requests",
        "8 parallel requests",
        "8 simultaneous requests",
        "8 concurrent users",
        "8 parallel clients",
        "8 simultaneous streams",
        "8 clients",
        "8 users",
        "8 streams",
        "clients: 8",
        "streams=8",
        "bs 8",
        "batch size of 8",
        "max concurrency: 8",
    ],
)
def test_words_for_eight_requests_at_once(words: str) -> None:
    assert load(words) == GivenFacts(batch=8.0)


@pytest.mark.parametrize(
    "words", ["single user", "one client", "single-stream", "one request", "one sequence"]
)
def test_words_for_one_request(words: str) -> None:
    assert load(words) == GivenFacts(batch=1.0)


def test_waiting_requests_are_also_called_pending() -> None:
    line = "Avg generation throughput: 80.0 tokens/s, Running: 4 reqs, Pending: 3 reqs\n"
    load = LoggedLoad.of(line * 3)
    assert load is not None
    assert (load.running, load.waiting) == (4, 3)


def test_a_configuration_has_several_forms() -> None:
    log = LoggedConfig.of("vLLM API server version 0.9.1\nServerArgs(tp_size=4)")
    assert (log.version, log.tp) == ("0.9.1", 4)


@pytest.mark.parametrize("heading", ["users", "clients", "streams", "concurrent users"])
@pytest.mark.parametrize(
    ("rate", "of_each"),
    [
        ("tok/s per stream", True),
        ("tok/s/stream", True),
        ("combined tok/s", False),
        ("total tok/s", False),
    ],
)
def test_headings_of_tables_of_concurrency(heading: str, rate: str, of_each: bool) -> None:
    table = f"| {heading} | {rate} |\n|--|--|\n| 1 | 40 |\n| 4 | 100 |"
    slow = steps(table, input=512)[-1]
    assert slow.seconds == pytest.approx(0.01 if of_each else 0.04)


@pytest.mark.parametrize(
    "name",
    ["n", "k", "gamma", "draft", "nextn", "eagle3", "num_speculative_tokens", "--draft-n-max"],
)
def test_names_of_draft_lengths_in_lines(name: str) -> None:
    lines = f"{name}=2: 50 tokens/s (acc 0.5)\n{name}=3: 60 t/s (acc 0.5)\nno draft: 40 tok/s"
    assert [step.gamma for step in steps(lines, input=512)] == [2, 3, 0]


@pytest.mark.parametrize("heading", ["settings", "variant", "config", "mode"])
def test_headings_of_tables_of_configurations(heading: str) -> None:
    table = f"| {heading} | tok/s |\n|--|--|\n| vanilla | 40 |\n| speculation n=2 | 55 |"
    assert [step.gamma for step in steps(table, input=512, accepted=2.0)] == [0, 2]


@pytest.mark.parametrize(
    ("duration", "seconds"), [("2s", 2.0), ("500us", 5e-4), ("500µs", 5e-4), ("9ns", 9e-9)]
)
def test_units_of_durations_of_ollama(duration: str, seconds: float) -> None:
    text = f"prompt eval count: 26 token(s)\neval count: 1 token(s)\neval duration: {duration}"
    assert steps(text)[0].seconds == pytest.approx(seconds)


def test_llama_cli_does_not_count_the_first_token() -> None:
    text = "prompt eval time = 100.00 ms / 32 tokens\neval time = 1000.00 ms / 50 runs"
    (step,) = steps(text)
    assert (step.output, step.seconds) == (51, pytest.approx(0.02))


def test_an_older_line_of_koboldcpp() -> None:
    speeds = "Process:0.10s (1.0ms/T = 900.00T/s), Generation:2.50s (25.0ms/T = 40.00T/s)"
    line = f"CtxLimit:512/4096, Amt:100/100, {speeds}"
    (step,) = steps(line)
    assert step.seconds == pytest.approx(0.025)


def test_the_short_name_of_the_accepted_length_has_capital_letters() -> None:
    assert stated("AL 2.3, n=3").accepted == 2.3
    assert stated("as in Li et al. 2024, n=3").accepted is None


@pytest.mark.parametrize("word", ["vs", "vs.", "versus", "compared to", "instead of"])
def test_words_that_contrast_two_speeds(word: str) -> None:
    text = f"52 tok/s with MTP (n=3, acc 0.5) {word} 33 tok/s"
    assert [step.gamma for step in steps(text, input=512)] == [3, 0]


def test_titles_of_texts() -> None:
    forms = {
        "AIPerf | LLM Metrics": "table of genai-perf or aiperf",
        "Throughput: 3.20 requests/s, 1640.00 total tokens/s": "output of vllm bench latency or throughput",
    }
    for text, title in forms.items():
        form = form_of(text)
        assert form is not None
        assert form.title.startswith(title)


@pytest.mark.parametrize(("mix", "weights"), [("BF16", "bf16"), ("F16", "f16"), ("MXFP4_MOE", "mxfp4_moe")])
def test_formats_in_names_of_gguf_files(mix: str, weights: str) -> None:
    question = question_of(f"llama-server -m models/Qwen3-8B-{mix}.gguf")
    assert question is not None
    assert f"--model Qwen3-8B --weights {weights}" in question


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("1.201,33 tok/s", "1201.33 tok/s"),
        ("draft;speedup\nnone;1.0×\nMTP;1.4×", "draft | speedup\nnone | 1.0×\nMTP | 1.4×"),
        ("2026-11-02T10:00:00+01:00 a\n2026-11-02T10:00:01+01:00 b", "a\nb"),
    ],
)
def test_numbers_cells_and_times_of_texts(text: str, cleaned: str) -> None:
    assert plain(text) == cleaned


@pytest.mark.parametrize("level", ["DEBUG", "INFO", "WARNING", "ERROR"])
def test_lines_of_every_level_that_a_terminal_broke(level: str) -> None:
    line = f"{level} 11-02 10:00:00 " + "word " * 12
    first, rest = f"{line}", "longwordattheend of the line"
    assert plain(f"{first}\n{rest}\n{line}").startswith(f"{line.rstrip()} {rest}")


@pytest.mark.parametrize("tokens", [105, 115])
def test_a_tenth_more_tokens_than_passes_shows_a_draft_of_llama_cpp(tokens: int) -> None:
    counts = {"tokens_predicted_total": tokens, "tokens_predicted_seconds_total": 10, "n_decode_total": 100}
    page = "\n".join(
        f"llamacpp:{name} {count}" for name, count in (counts | {"n_busy_slots_per_decode": 1}).items()
    )
    if tokens > 110:
        refused("gamma: must be stated", steps, page, input=512)
    else:
        assert [step.gamma for step in steps(page, input=512)] == [0]


@pytest.mark.parametrize(("characters", "known"), [(1000, True), (1001, False)])
def test_speeds_are_found_in_texts_of_up_to_1000_characters(characters: int, known: bool) -> None:
    text = "with MTP (n=3, acc 0.5): 52 tok/s, without: 33 tok/s. ".ljust(characters, "x")
    assert (form_of(text) is not None) is known


@pytest.mark.parametrize(
    ("words", "length"),
    [
        ("--speculative-num-steps 3 --speculative-num-draft-tokens 4", 3),
        ("num-draft-tokens 4", 4),
        ("3 draft tokens", 3),
        ("with 3 drafted", 3),
        ("batch 8 draft on", None),
        ("Qwen 3 speculative decoding", None),
    ],
)
def test_a_number_before_the_word_draft_is_a_length_only_with_its_tokens(words: str, length) -> None:
    assert stated(words).gamma == length


@pytest.mark.parametrize(
    ("words", "tokens"),
    [
        ("--num-prompts 200", None),
        ("ran 100 prompts", None),
        ("8k prompts", 8192),
        ("512-token prompts", 512),
    ],
)
def test_a_number_of_prompts_is_no_length(words: str, tokens) -> None:
    assert load(words).input == tokens
