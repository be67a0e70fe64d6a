"""The size and the use of a server's cache: in its log or on its page of metrics."""

import re

import pytest

from perfmodel.answers.point.whatif import whatif
from perfmodel.cli import run
from perfmodel.validate.engine.logged_load import LoggedLoad
from tests.validate.engine.health_logs import (
    ASK,
    plain_log,
    predicted_tokens_per_s,
    vllm_log,
    watched,
)

PAGES = {
    "vllm": (
        "vllm:kv_cache_usage_perc 0.05\nvllm:num_requests_running 8\n"
        'vllm:spec_decode_num_accepted_tokens_per_pos_total{position="0"} 750\n'
        "vllm:spec_decode_num_drafts_total 1000\nvllm:spec_decode_num_draft_tokens_total 1000\n"
    ),
    "sglang": (
        "sglang:spec_accept_length 2.95\nsglang:spec_accept_rate 0.65\nsglang:gen_throughput 900.0\n"
        "sglang:num_running_reqs 4\nsglang:num_used_tokens 36000\n"
    ),
}
"""Gauges and counters of a page, without the lengths of requests."""


def test_a_page_without_positions_has_the_length_of_its_drafts(tmp_path, capsys) -> None:
    """2.55 tokens per iteration of three drafted, in 20 ms each."""
    counters = {"drafts": 1000, "draft_tokens": 3000, "accepted_tokens": 1550}
    page = "".join(f"vllm:spec_decode_num_{name}_total {count}\n" for name, count in counters.items())
    page += "vllm:num_requests_running 8\n"
    page += "vllm:inter_token_latency_seconds_sum 20\nvllm:inter_token_latency_seconds_count 1000\n"
    _, out = watched(tmp_path, capsys, page)
    assert "2.55 tokens per iteration" in out
    assert "20 ms per iteration" in out


@pytest.mark.parametrize(("engine", "length"), [("vllm", 1), ("sglang", 3)])
def test_gauges_of_a_page_state_the_context_and_the_draft_length(tmp_path, capsys, engine, length) -> None:
    path = tmp_path / "page.txt"
    path.write_text(PAGES[engine])
    ask = [word for word in ASK if word not in ("--context", "4k")]
    run(["validate", "engine", "--watch", str(path), *ask, "--engine", engine])
    out = " ".join(capsys.readouterr().out.split())
    context = int(re.search(r"context: about (\d+) tokens, by the used part", out)[1])
    question = {"batch": 8, "context": 4096, "tp": 2, "draft": "eagle3", "gamma": 1}
    cache = whatif("qwen3-32b", "h100", **question).kv_cache
    assert context == (9000 if engine == "sglang" else pytest.approx(0.05 * cache.kv_tokens / 8, abs=0.5))
    assert f"K = {length}" in out


def test_the_used_parts_of_all_ranks_of_a_page_count_together(tmp_path, capsys) -> None:
    """Eight requests use 5 % of one cache, or 2 and 3 % of the caches of two ranks."""
    counters = PAGES["vllm"].partition("running 8\n")[2]
    ranks = ""
    for rank, (used, requests) in enumerate(((0.02, 3), (0.03, 5))):
        label = f'{{engine="{rank}"}}'
        ranks += f"vllm:kv_cache_usage_perc{label} {used}\nvllm:num_requests_running{label} {requests}\n"
    contexts = []
    for text in (PAGES["vllm"], ranks + counters):
        path = tmp_path / "page.txt"
        path.write_text(text)
        run(["validate", "engine", "--watch", str(path), *[w for w in ASK if w not in ("--context", "4k")]])
        out = " ".join(capsys.readouterr().out.split())
        contexts.append(re.search(r"context: about (\d+) tokens, by the used part", out)[1])
    assert contexts[0] == contexts[1]


def test_lines_that_do_not_state_the_use_of_the_cache_have_no_context() -> None:
    stated = LoggedLoad.of(plain_log(400.0))
    unstated = LoggedLoad.of(plain_log(400.0).replace("GPU KV cache usage: 10.0%, ", ""))
    assert stated is not None
    assert unstated is not None
    assert (stated.running, stated.context) == (8, 4096)
    assert (unstated.running, unstated.context, unstated.context_of(327_680)) == (8, None, None)


@pytest.mark.parametrize(("faster", "partly_idle"), [(1.09, False), (1.105, True)])
def test_two_lines_of_a_load_are_busy_if_their_paces_differ_by_a_tenth(faster, partly_idle) -> None:
    load = LoggedLoad.of(plain_log(1000.0, lines=1) + plain_log(1000.0 * faster, lines=1))
    assert load is not None
    assert load.partly_idle is partly_idle


def test_a_log_without_the_size_of_its_cache_has_the_predicted_one(tmp_path, capsys) -> None:
    path = tmp_path / "server.log"
    path.write_text(vllm_log(predicted_tokens_per_s()))
    ask = [word for word in ASK if word not in ("--context", "4k")]
    run(["validate", "engine", "--watch", str(path), *ask])
    out = " ".join(capsys.readouterr().out.split())
    cache = whatif("qwen3-32b", "h100", batch=8, context=4096, tp=2, draft="eagle3", gamma=3).kv_cache
    context = int(re.search(r"context: about (\d+) tokens, by the used part", out)[1])
    assert context == pytest.approx(0.04 * cache.kv_tokens / 8, abs=0.5), "the draft takes memory too"
    assert "health: healthy" in out


def test_the_size_of_a_cache_is_compared_with_the_predicted_one(tmp_path, capsys) -> None:
    path = tmp_path / "start.log"
    cache = whatif("qwen3-32b", "h100", batch=1, context=4096, tp=2, draft="eagle3", gamma=3).kv_cache
    config = "speculative_config=SpeculativeConfig(method='eagle3', num_spec_tokens=3), quantization=fp8"
    ask = ["validate", "engine", *[word for word in ASK if word not in ("--context", "4k")]]
    for line in (f"GPU KV cache size: {cache.kv_tokens:,} tokens", f"max_total_num_tokens={cache.kv_tokens}"):
        path.write_text(f"INFO {config}\nINFO {line}\n")
        assert run([*ask, "--from", str(path)]) == 0
        out = " ".join(capsys.readouterr().out.split())
        words = f"{cache.kv_tokens:,} tokens in the log; predicted {cache.kv_tokens:,} (1.00 times)"
        assert f"KV cache: {words}" in out
        assert "warning: the log has fp8 weights" in out
    _, watching = watched(tmp_path, capsys, vllm_log(100.0, first="GPU KV cache size: 1,000 tokens"))
    assert "KV cache: 1,000 tokens in the log; predicted" in watching


def test_a_rank_has_its_own_part_of_the_predicted_cache(tmp_path, capsys) -> None:
    """Requests, used share and size in a log are those of each of eight data-parallel ranks."""
    path = tmp_path / "server.log"
    ask = ["validate", "engine", "--watch", str(path), "--model", "deepseek-r1", "--hardware", "h200"]
    ask += ["--tp", "8", "--dp", "8", "--ep", "8", "--draft", "mtp"]
    layout = {"tp": 8, "dp": 8, "ep": 8, "draft": "mtp", "gamma": 3}
    of_rank = whatif("deepseek-r1", "h200", batch=64, context=4096, **layout).kv_cache.kv_tokens / 8
    path.write_text(vllm_log(100.0))
    run(ask)
    out = " ".join(capsys.readouterr().out.split())
    context = int(re.search(r"context: about (\d+) tokens, by the used part", out)[1])
    assert context == pytest.approx(0.04 * of_rank / 8, abs=0.5)
    path.write_text(vllm_log(100.0, first="GPU KV cache size: 1,000 tokens"))
    run([*ask, "--context", "4k"])
    out = " ".join(capsys.readouterr().out.split())
    assert f"KV cache: 1,000 tokens in the log; predicted {of_rank:,.0f} (" in out


def test_a_cache_that_is_nearly_empty_has_requests_of_one_token(tmp_path, capsys) -> None:
    path = tmp_path / "page.txt"
    path.write_text("sglang:gen_throughput 900.0\nsglang:num_running_reqs 4\nsglang:num_used_tokens 1\n")
    run(["validate", "engine", "--watch", str(path), "--model", "llama-3.1-8b", "--hardware", "h100"])
    assert "requests: 4 running, at 1 tokens of context; no drafts" in capsys.readouterr().out
