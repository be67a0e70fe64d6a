"""A paste that ends in the middle of a line or of a count: what is whole is read, and the rest is named."""

import re

import pytest

from perfmodel.validate.engine.acceptance import draft_length, import_text, served_gamma
from perfmodel.validate.engine.acceptance.sglang_log import log_lines
from perfmodel.validate.engine.formats import read_pasted
from perfmodel.validate.engine.pastes import PromptTiming, form_of
from perfmodel.validate.engine.timing import GivenFacts
from tests.refusals import refused
from tests.validate.engine.figures import subject
from tests.validate.engine.pasting import pasted, sample

DECODES = "Decode batch, #running-req: 1, #token: {}, token usage: 0.00, accept len: {}"
REST = ", accept rate: 0.57, cuda graph: True, gen throughput (token/s): 212.40, #queue-req: 0\n"


@pytest.mark.parametrize(("cut", "lines"), [("2.", 1), ("2", 1), ("", 1), ("2.91", 2)])
def test_a_line_of_sglang_that_was_cut_in_its_accept_length_is_left_out(cut: str, lines: int) -> None:
    log = DECODES.format(930, "2.71") + REST + DECODES.format(990, cut) + "\n"
    assert [line.length for line in log_lines(log)] == [2.71, 2.91][:lines]


def test_the_figures_of_a_damaged_line_of_sglang_are_named() -> None:
    log = DECODES.format(930, "2.71") + REST + DECODES.format(990, "2..71") + REST
    says = "accept len and accept rate of a line: must be numbers from 0 to .*, given '1 990 2..71 0.57'"
    refused(says, import_text, "x", log, "sglang", subject(3))


def test_json_whose_end_is_missing_is_asked_for_as_a_whole(monkeypatch, capsys) -> None:
    cut = '{\n  "backend": "vllm",\n  "median_tpot_ms": 38.5,\n  "spec_decode_acceptance_leng'
    status, out = pasted(monkeypatch, capsys, cut, "--draft", "mtp", "--from", "-")
    assert status == 2
    assert "error: -: ends in the middle of a JSON object: paste all of it" in out


def test_a_log_of_llama_cpp_that_ends_before_its_output_times_a_prompt(monkeypatch, capsys) -> None:
    log = sample("llama_server_log")
    cut = log[: log.index("254 tokens")]
    form = form_of(cut)
    assert form is not None
    assert [*form.prompts("-", cut)] == [PromptTiming(1520.0, 0.0, pytest.approx(1.8342))]
    status, out = pasted(monkeypatch, capsys, cut, "--from", "-")
    assert status == 0
    assert out.endswith("missing for a calibration: outputs with their times")


def test_a_count_that_was_cut_off_is_no_draft_length() -> None:
    """783,000 drafted tokens in 261,000 drafts, of which two digits are missing."""
    name = "vllm:spec_decode_num_"
    counts = (
        f"{name}draft_tokens_total 783000\n{name}accepted_tokens_total 342000\n{name}drafts_total 261{{}}\n"
    )
    assert served_gamma("x", counts.format("000"), None) == 3
    says = r"x: tokens per draft: must be at most 64 \(is a number cut off\?\), given 300"
    refused(says, served_gamma, "x", counts.format("0"), None)
    assert served_gamma("x", counts.format("0"), 3) == 3


TOTALS = (
    "statistics {}: #calls(b,g,a) = 3 170 141, #gen drafts = {}, #acc drafts = 141, #gen tokens = {}, "
    "#acc tokens = {}, dur(b,g,a) = 0.004, 1201.110, 0.120 ms\n"
)


def test_totals_of_llama_cpp_need_no_times() -> None:
    """Later totals include earlier ones: 170 drafts of two tokens, of which 225 were accepted."""
    accepted = "draft acceptance rate = 0.66176 ( 225 accepted / 340 generated)\n"
    log = accepted + TOTALS.format("draft-mtp", 70, 140, 90) + TOTALS.format("draft-mtp", 170, 340, 225)
    (row,) = import_text("x", log, None, subject(2)).rows
    assert draft_length(log) == 2
    assert row.alpha + row.alpha**2 == pytest.approx(225 / 170)
    early = TOTALS.format("draft-mtp", 170, 300, 225)
    refused("drafts of 1.76 tokens on average where --gamma is 2", import_text, "x", early, None, subject(2))
    both = log + TOTALS.format("ngram-mod", 10, 20, 5)
    refused("eval time: must stand beside", import_text, "x", both, None, subject(2))
    timed = (
        "eval time = 1000.00 ms / 176 tokens\ndraft acceptance rate = 0.5 ( 75 accepted / 200 generated)\n"
    )
    (row,) = import_text("x", timed + log.removeprefix(accepted), None, subject(2)).rows
    assert row.alpha + row.alpha**2 == pytest.approx(0.75), "the requests with times are whole"


def test_the_times_of_the_two_models_of_llama_speculative_are_no_requests() -> None:
    printed = sample("llama_speculative")
    models = "llama_perf_context_print:        eval time =    2000.00 ms /    99 runs\n"
    assert read_pasted("-", printed + models, GivenFacts()) == read_pasted("-", printed, GivenFacts())


def test_the_mean_length_of_llama_cpp_has_two_names() -> None:
    log = sample("llama_server_log")
    short = log.replace("mean acceptance length", "mean len")
    assert short != log
    (by_position,) = import_text("x", log, None, subject(3)).rows
    assert by_position.histogram is not None, "rates by position stand after it"
    assert import_text("x", short, None, subject(3)).rows == (by_position,)


def test_a_share_with_a_decimal_comma_is_read(monkeypatch, capsys) -> None:
    older = sample("llama_server_log").partition(", mean acceptance")[0] + "\n"
    german = re.sub(r"(\d)\.(\d)", r"\1,\2", older)
    assert "0,64479" in german
    asked = ["--draft", "mtp", "--from", "-"]
    assert pasted(monkeypatch, capsys, german, *asked) == pasted(monkeypatch, capsys, older, *asked)
