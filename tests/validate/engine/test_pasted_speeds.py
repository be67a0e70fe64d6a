"""Speeds as people write them: which of them a draft made, and what else the words say."""

import pytest

from perfmodel.validate.engine.formats import read_pasted
from perfmodel.validate.engine.paste import recognised, steps_of
from perfmodel.validate.engine.pastes import form_of
from perfmodel.validate.engine.text import plain
from perfmodel.validate.engine.timing import GivenFacts
from tests.refusals import refused
from tests.validate.engine.pasting import pasted, sample


def test_the_eval_rate_of_ollama_alone_is_a_speed() -> None:
    alone = "prompt eval rate:     193.33 tokens/s\neval rate:            40.00 tokens/s\n"
    refused("-: input: must be stated", read_pasted, "-", alone, GivenFacts())
    (timing,) = read_pasted("-", alone, GivenFacts(input=100))
    assert (timing.batch, timing.gamma, timing.seconds) == (1, 0, 0.025)
    refused(
        "-: eval rate: must be above 0", read_pasted, "-", alone.replace("40.00", "0"), GivenFacts(input=1)
    )


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("I get 128 tokens/s with speculative decoding on, and 342 tokens/s without it: ", [3, 0]),
        ("33 t/s baseline, 52 t/s with MTP. Without it I could not work.", [0, 3]),
        ("52 t/s with MTP. Without it I get 33 t/s", [3, 0]),
        ("I get 34 tok/s on a 3090. Enabling MTP drops it to 21 tok/s although acceptance is 80%.", [0, 3]),
        ("With MTP it is 21 tok/s. I got 34 tok/s before.", [3, 0]),
        ("With MTP it is 21 tok/s. Here are 34 tok/s.", None),
        ("Prompts went from 900 to 300 tok/s of prefill; output is 30 tok/s with MTP", None),
        ("TPOT is 9.6 ms without speculation and 14.2 ms with MTP", [0, 3]),
        ("9.6 ms/token without a draft, 14.2 ms per token with it: EAGLE", [0, 3]),
        ("TTFT is 96 ms without a draft, 142 ms with it", None),
        ("I get, with speculative decoding, 128 tokens/s, and without it 342 tokens/s.", [3, 0]),
        ("no draft 20.5 tok/s, draft 14.2 tok/s", [0, 3]),
        ("no_spec 20.5 tok/s, eagle3 14.2 tok/s", [0, 3]),
        ("55.8 t/s -> 60.2 t/s with --spec-draft-n-max 3", [0, 3]),
        ("w/o MTP 20.5 tok/s, MTP 14.2 tok/s", [0, 3]),
        ("Prompt: 300 tok/s, output: 30 tok/s", None),
        ("Baseline 33 tok/s without MTP; 52 tok/s with MTP; 45 tok/s with n=4", None),
    ],
)
def test_two_speeds_are_told_apart_by_the_words_before_or_behind_them(
    text: str, kinds: list[int] | None
) -> None:
    form = form_of(text)
    if kinds is None:
        assert form is None
        return
    steps = read_pasted("-", text, GivenFacts(input=500, gamma=3, accepted=2.0))
    assert [timing.gamma for timing in steps] == kinds


def test_the_length_and_the_acceptance_that_the_words_state_are_taken() -> None:
    words = "128 tok/s with MTP and 342 tok/s without, acceptance 96.6%, num_speculative_tokens=1"
    drafting, alone = read_pasted("-", words, GivenFacts(input=500))
    assert (drafting.gamma, drafting.tokens_per_iteration) == (1, 1.966)
    assert drafting.seconds == pytest.approx(1.966 / 128)
    assert (alone.gamma, alone.seconds) == (0, 1 / 342)
    (other, _) = read_pasted("-", words, GivenFacts(input=500, accepted=1.5))
    assert other.tokens_per_iteration == 1.5, "the command line has the last word"
    refused("-: gamma: must be", read_pasted, "-", words.replace("_tokens=1", "=on"), GivenFacts(input=500))
    two = f"{words}\nn=3: slower"
    refused("-: gamma: must be", read_pasted, "-", two, GivenFacts(input=500, accepted=1.5))


def test_drafts_that_end_early_are_as_long_as_their_mean(monkeypatch, capsys) -> None:
    """The longest length is no length of such drafts, so the accepted share of it means nothing."""
    words = (
        "42.1 t/s w/o draft, 55 t/s with draft-max 8, p-min 0.8, accepted 0.9, drafted 3.1 tokens per step"
    )
    for facts in (GivenFacts(input=500), GivenFacts(input=500, gamma=3)):
        _, drafting = read_pasted("-", words, facts)
        assert (drafting.gamma, drafting.tokens_per_iteration) == (3, pytest.approx(1 + 0.9 * 3.1))
    no_mean = words.partition(", drafted")[0]
    _, drafting = read_pasted("-", no_mean, GivenFacts(input=500, gamma=4))
    assert (drafting.gamma, drafting.tokens_per_iteration) == (4, pytest.approx(1 + 0.9 * 4))
    status, out = pasted(monkeypatch, capsys, no_mean, "--draft", "mtp", "--from", "-")
    assert status == 2
    assert "p-min ends drafts early, so gamma is their mean length" in " ".join(out.split())
    _, drafting = read_pasted("-", no_mean.replace("0.8", "0.0"), GivenFacts(input=500))
    assert (drafting.gamma, drafting.tokens_per_iteration) == (8, pytest.approx(1 + 0.9 * 8))


@pytest.mark.parametrize(
    ("words", "tokens"),
    [
        ("at 8k context", 8192),
        ("depth 4096", 4096),
        ("with 3000 tokens of context", 3000),
        ("at 8k context with greedy sampling", 8192),
        ("at 128k context window", None),
        ("@ 2k ctx size", None),
    ],
)
def test_the_context_in_words_is_taken_unless_it_is_a_limit(words: str, tokens: int | None) -> None:
    text = f"33 tok/s without a draft, 52 tok/s with MTP {words}"
    if tokens is None:
        refused("-: input: must be", read_pasted, "-", text, GivenFacts(gamma=2, accepted=2.0))
        return
    plain_step, _ = read_pasted("-", text, GivenFacts(gamma=2, accepted=2.0))
    assert plain_step.prompt == tokens


@pytest.mark.parametrize(
    ("lines", "steps"),
    [
        (
            "baseline: 33 t/s\nMTP n=2: 52.1 t/s, 80% accepted\nMTP n=4 (acc 0.6): 47 t/s",
            [(0, 1.0), (2, 2.6), (4, 3.4)],
        ),
        (
            "Prompt n=0 -> 900 t/s\n--draft-max 0 33 t/s\n--spec-draft-n-max 2 -> 52 t/s, accept len 2.4",
            [(0, 1.0), (2, 2.4)],
        ),
        (
            "no draft 33 t/s\nMTP-1: 40 tok/s (acc: 90 %)\nMTP-3: 47 tok/s (acc: 70 %)",
            [(0, 1), (1, 1.9), (3, 3.1)],
        ),
    ],
)
def test_each_line_has_a_draft_length_of_its_own(lines: str, steps: list[tuple[int, float]]) -> None:
    timings = read_pasted("-", lines, GivenFacts(input=500))
    assert [(timing.gamma, pytest.approx(timing.tokens_per_iteration)) for timing in timings] == steps


def test_lines_without_acceptance_lack_it() -> None:
    lines = "no draft: 33 t/s\nn=2: 52 t/s\nn=4: 47 t/s"
    refused("-: accepted: must be", read_pasted, "-", lines, GivenFacts(input=500))
    refused(
        "-: tokens per second: must be above 0",
        read_pasted,
        "-",
        lines.replace("52", "0"),
        GivenFacts(input=5),
    )
    assert form_of("n=2: 52 t/s\nn=2: 51 t/s\nno draft: 30 t/s") is None, "one length, twice"


@pytest.mark.parametrize(
    ("words", "gamma", "tokens"),
    [
        ("35 tok/s plain and 41 tok/s with MTP (n-max 3, acceptance 0.55)", 3, 2.65),
        ("35 tok/s plain and 41 tok/s with MTP (n_max=3, 55% acceptance)", 3, 2.65),
        ("35 tok/s plain and 41 tok/s with EAGLE, 5 speculative tokens, mean acceptance length 1.9", 5, 1.9),
        ("35 tok/s plain and 41 tok/s with MTP (draft-max 2, accept len: 2.25, accept rate 0.62)", 2, 2.25),
    ],
)
def test_acceptance_is_a_share_or_a_length(words: str, gamma: int, tokens: float) -> None:
    alone, drafting = read_pasted("-", words, GivenFacts(input=500))
    assert alone.gamma == 0
    assert (drafting.gamma, drafting.tokens_per_iteration) == (gamma, pytest.approx(tokens))


@pytest.mark.parametrize("words", ["38 → 57 tok/s", "38 -> 57 t/s", "from 38 to 57 tok/s"])
def test_two_speeds_can_share_a_unit(words: str) -> None:
    text = f"{words} with MTP n=2, accepted 0.81"
    alone, drafting = read_pasted("-", text, GivenFacts(input=500))
    assert (alone.gamma, alone.seconds) == (0, pytest.approx(1 / 38))
    assert (drafting.gamma, drafting.seconds) == (2, pytest.approx(2.62 / 57))


def test_a_speed_alone_can_state_its_load() -> None:
    (alone,) = read_pasted("-", "35 tok/s at 8k context", GivenFacts())
    assert (alone.gamma, alone.prompt, alone.seconds) == (0, 8192, pytest.approx(1 / 35))
    drafting = "52 tok/s at 4k context with MTP (n=3, 72% accepted)"
    (timing,) = read_pasted("-", drafting, GivenFacts())
    assert (timing.gamma, timing.prompt, timing.seconds) == (3, 4096, pytest.approx(3.16 / 52))
    refused("-: gamma: must be", read_pasted, "-", "52 tok/s at 4k context with MTP", GivenFacts())
    several = "output throughput: 178 tok/s at concurrency 4"
    says = "tokens per second: must be of one request: give them, and --from -,batch=4"
    refused(says, read_pasted, "-", several, GivenFacts(input=500))
    (timing,) = read_pasted("-", several, GivenFacts(input=500, batch=2))
    assert timing.batch == 2


def test_a_number_that_is_no_share_is_no_acceptance() -> None:
    words = "35 tok/s plain and 41 tok/s with MTP (n=3), accepted 211"
    refused("-: accepted: must be", read_pasted, "-", words, GivenFacts(input=500))


def test_lm_studio_shows_drafts_on_a_line_of_their_own() -> None:
    shown = "27.3 tok/sec\n488 tokens\n0.42s to first token\nAccepted 211/380 draft tokens (55.5%)\n"
    (timing,) = read_pasted("-", shown, GivenFacts(input=500))
    assert (timing.gamma, timing.tokens_per_iteration) == (2, pytest.approx(488 / 277))
    alone, drafting = read_pasted(
        "-", "30 tok/s • 9 tokens • 0.4s to first token\n" + shown, GivenFacts(input=5)
    )
    assert (alone.gamma, drafting.gamma) == (0, 2)


def test_a_time_per_token_is_that_of_each_request() -> None:
    words = "TPOT is 10 ms without speculation and 14 ms with MTP (n=2, acc 70%)"
    alone, drafting = read_pasted("-", words, GivenFacts(input=500, batch=8))
    assert (alone.batch, alone.seconds) == (8, 0.01)
    assert (drafting.gamma, drafting.tokens_per_iteration) == (2, 2.4)
    assert drafting.seconds == pytest.approx(2.4 * 0.014)


@pytest.mark.parametrize(
    "table",
    [
        "concurrency,no draft tok/s,MTP tok/s\n1,41,88.3\n4,150,270.2",
        "My runs:\nconcurrency\tno draft tok/s\tMTP tok/s\n1\t41\t88.3\n4\t150\t270.2\nBad, no?",
        "Concurrency   no draft (tok/s)   MTP tok/s\n1    41         88.3 tok/s\n4   150   270.2",
        "concurrency;no draft tok/s;MTP tok/s\n1;41,0;88,3\n4;150,0;270,2",
    ],
)
def test_a_table_needs_no_bars(table: str) -> None:
    steps = read_pasted("-", plain(table), GivenFacts(input=500, gamma=2, accepted=2.0))
    assert [(step.batch, step.gamma) for step in steps] == [(1, 0), (4, 0), (1, 2), (4, 2)]
    assert steps[0].seconds == pytest.approx(1 / 41)
    assert steps[3].seconds == pytest.approx(4 * 2.0 / 270.2)


@pytest.mark.parametrize(
    "words",
    ["with MTP, 52 tok/s\nwithout, 33 tok/s", "a,b\n1,x", "a, b, c", "n\t1\n2\t3", "vllm:running  2\nb  3"],
)
def test_any_other_text_gets_no_bars(words: str) -> None:
    assert "|" not in plain(words)


def test_a_rate_of_several_requests_is_that_of_all() -> None:
    alone, _ = read_pasted(
        "-",
        "without MTP 400 tok/s, with MTP 500 tok/s",
        GivenFacts(input=500, batch=8, gamma=1, accepted=1.5),
    )
    assert alone.seconds == pytest.approx(8 / 400)


def test_speeds_in_a_long_text_are_no_comparison() -> None:
    speeds = sample("two_speeds")
    assert form_of(f"{speeds}{' ' * (1000 - len(speeds))}") is not None
    assert form_of(f"{speeds}{' ' * (1001 - len(speeds))}") is None


def test_two_speeds_take_the_published_acceptance(monkeypatch, capsys) -> None:
    given = ["--draft", "mtp", "--gamma", "3", "--from", "-,input=500"]
    status, out = pasted(monkeypatch, capsys, sample("two_speeds"), *given)
    assert status == 0
    assert "acceptance is not in the text; taken:" in out
    assert "B=1 S=500 K=3: measured 1.55 times the baseline, predicted" in out


def test_a_speed_alone_is_compared(monkeypatch, capsys) -> None:
    status, out = pasted(monkeypatch, capsys, "36.4 tok/s\n", "--from", "-")
    assert status == 0
    assert "the context is not in the text; assumed: 1024 tokens (--context N)" in out
    assert "B=1 S=1024 baseline" in out
    status, out = pasted(monkeypatch, capsys, "36.4 tok/s\n", "--from", "-,input=500")
    assert status == 0
    assert "B=1 S=500 baseline: 27 ms per iteration; predicted" in out


def test_the_context_of_the_command_line_is_that_of_a_text_without_one(monkeypatch, capsys) -> None:
    _, refusal = pasted(monkeypatch, capsys, "36.4 tok/s\n", "--from", "-,batch=8")
    assert refusal.endswith(
        "input: must be stated, as in --from -,input=N or --context N: the file does not say"
    )
    status, out = pasted(monkeypatch, capsys, "36.4 tok/s\n", "--from", "-", "--context", "400,600")
    assert status == 0
    assert "B=1 S=500 baseline: 27 ms per iteration" in out
    _, out = pasted(monkeypatch, capsys, "36.4 tok/s\n", "--from", "-,input=900", "--context", "500")
    assert "B=1 S=900 baseline" in out


def test_all_missing_facts_are_asked_for_at_once(monkeypatch, capsys) -> None:
    table = "| clients | tok/s with MTP |\n| 1 | 80 |\n| 16 | 400 |\n"
    _, refusal = pasted(monkeypatch, capsys, table, "--draft", "mtp", "--from", "-")
    asked = "-: input, gamma: must be stated, as in --from -,input=N,gamma=N or --context N or --gamma N"
    assert asked in refusal


def test_words_behind_each_speed_decide_before_a_name_that_has_the_word_draft(monkeypatch, capsys) -> None:
    line = "RTX 3090, 27B + MTP draft: 34.1 t/s baseline -> 41.0 t/s with draft (--draft-max 8), accepted 52%"
    _, out = pasted(monkeypatch, capsys, line, "--draft", "mtp", "--from", "-")
    assert "K=8: measured 1.20 times the baseline" in out


def test_a_table_of_configurations_is_one_of_draft_lengths(monkeypatch, capsys) -> None:
    table = "| config | tok/s |\n|--|--|\n| no spec | 61.2 |\n| n=1 | 83.0 |\n| MTP 4 | 92.0 |\n"
    _, out = pasted(monkeypatch, capsys, table, "--draft", "mtp", "--from", "-")
    assert "read: table of draft lengths" in out
    assert "K=4: measured" in out
    other = "| config | tok/s |\n|--|--|\n| baseline | 61.2 |\n| TP 2 | 83.0 |\n"
    assert "no benchmark known" in pasted(monkeypatch, capsys, other, "--from", "-")[1]


def test_a_csv_of_clients_and_speeds_is_a_table(monkeypatch, capsys) -> None:
    text = "batch,input_tps,output_tps\n1,400,36.0\n4,900,120.0\n"
    _, out = pasted(monkeypatch, capsys, text, "--from", "-")
    assert "read: table of concurrency and tokens per second" in out
    assert "B=4 S=1024 baseline: 33 ms per iteration" in out


def test_a_named_draft_that_a_text_does_not_count_is_said(monkeypatch, capsys) -> None:
    _, out = pasted(monkeypatch, capsys, sample("lm_studio"), "--draft", "mtp", "--from", "-")
    assert "the text counts no draft, so it is compared with decoding without one; if mtp drafted" in out
    _, plain = pasted(monkeypatch, capsys, sample("lm_studio"), "--from", "-")
    assert "counts no draft" not in plain


def test_a_server_that_dropped_its_draft_is_compared_without_it(monkeypatch, capsys) -> None:
    line = "srv: speculative decoding is not supported by multimodal, it will be disabled"
    log = f"{line}\nprompt eval time = 312.22 ms / 320 tokens\n       eval time = 5512.01 ms / 200 tokens\n"
    status, out = pasted(monkeypatch, capsys, log, "--draft", "mtp", "--from", "-")
    assert status == 0
    assert "the server decodes without its draft: its log says: not supported by multimodal B=1 S=" in out
    assert "the text counts no draft" not in out


def test_the_first_token_of_a_lone_request_is_no_load(monkeypatch, capsys) -> None:
    _, out = pasted(monkeypatch, capsys, sample("lm_studio"), "--from", "-")
    assert "the first token takes 237 ms, a prompt alone" in out
    assert "the load is off" not in out
    line = "34.21 tok/sec • 612 tokens • 0.83s to first token • Stop reason: EOS Token Found"
    _, assumed = pasted(monkeypatch, capsys, line, "--from", "-")
    assert "the context is not in the text; assumed: 1024 tokens" in assumed
    assert "a prompt alone" not in assumed


@pytest.mark.parametrize(
    ("line", "tokens_per_s", "context"),
    [
        ("Generation: 36.4 t/s", 36.4, 500.5),
        ("tg 36.4 tokens per second", 36.4, 500.5),
        ("Output generated in 6.40 seconds (40.00 tokens/s, 256 tokens, context 612, seed 9)", 40, 612 + 128),
        ("INFO: Chat completion: 256 tokens in 5.61s (45.6 tok/s)", 45.6, 500 + 128),
        ("[server] generated 412 tokens in 9.8 seconds, 42.0 tokens/s, stop", 42.0, 500 + 206),
    ],
)
def test_a_speed_with_its_name_or_its_tokens_is_read(line: str, tokens_per_s: float, context: float) -> None:
    (timing,) = read_pasted("-", line, GivenFacts(input=500))
    assert timing.seconds == pytest.approx(1 / tokens_per_s)
    assert timing.context == context


def test_the_speed_of_a_prompt_alone_is_no_step() -> None:
    assert form_of("Prompt: 812.3 t/s") is None
    assert form_of("pp 812.3 t/s") is None


def test_words_that_end_a_sentence_are_not_about_its_last_speed(monkeypatch, capsys) -> None:
    line = "n=3: without spec 30 t/s with spec 45 t/s without thermal throttling, accepted 60%"
    _, out = pasted(monkeypatch, capsys, line, "--draft", "mtp", "--gamma", "3", "--from", "-")
    assert "K=3: measured 1.50 times the baseline" in out


def test_numbered_runs_are_no_draft_lengths_and_sent_requests_no_clients(monkeypatch, capsys) -> None:
    runs = "| run | tok/s |\n|--|--|\n| 0 | 61.2 |\n| 1 | 61.0 |\n| 2 | 61.4 |\n"
    sent = "| requests | tok/s |\n|--|--|\n| 500 | 2100 |\n| 1000 | 2150 |\n"
    for table in (runs, sent):
        assert "no benchmark known" in pasted(monkeypatch, capsys, table, "--from", "-")[1]


@pytest.mark.parametrize("batch", [4.0, 5.0])
def test_a_context_is_assumed_for_at_most_four_sequences(batch: float) -> None:
    pasted_text = recognised("-", "35 tok/s")
    if batch > 4:
        refused("-: input: must be stated", steps_of, pasted_text, GivenFacts(batch=batch), lambda _: None)
    else:
        read = steps_of(pasted_text, GivenFacts(batch=batch), lambda _: None)
        assert read.note == "the context is not in the text; assumed: 1024 tokens (--context N)"
