"""The draft length of a log, the recommended one, and the command to run next."""

import re

import pytest

from perfmodel.cli import run
from tests.validate.engine.health_logs import (
    BAD,
    GAINED,
    predicted_tokens_per_s,
    sglang_log,
    vllm_log,
    watched,
)


def test_the_tokens_of_a_measured_acceptance_are_one_number(tmp_path, capsys) -> None:
    healthy = tmp_path / "healthy.log"
    healthy.write_text(vllm_log(predicted_tokens_per_s()))
    rows = str(tmp_path / "rows.json")
    subject = ["--target", "qwen3-32b", "--draft", "eagle3", "--gamma", "3", "--context", "4k"]
    assert run(["validate", "acceptance", "--import", str(healthy), *subject, "--out", rows]) == 0
    _, out = watched(tmp_path, capsys, vllm_log(predicted_tokens_per_s(BAD), rates=BAD), "--acceptance", rows)
    assert f"below the expected {GAINED:.2f}: check" in out


@pytest.mark.parametrize("rate", [(2.8 - 1) / 5, 2.8 / 6])
def test_the_draft_length_of_an_sglang_log_follows_from_its_rate(tmp_path, capsys, rate: float) -> None:
    """Before April 2026 SGLang counted the bonus token in the rate: 2.8/6; since then (2.8 - 1)/5."""
    _, out = watched(tmp_path, capsys, sglang_log(2.8, rate), "--engine", "sglang")
    assert "K = 5" in out
    assert "health:" in out


def test_both_draft_lengths_of_an_sglang_log_are_named(tmp_path, capsys) -> None:
    """(3.62 - 1) / 0.52 = 5, or 3.62 / 0.52 = 7 with the bonus token."""
    status, out = watched(tmp_path, capsys, sglang_log(3.62, 0.52), "--engine", "sglang")
    assert status == 2
    assert "--gamma: must be given" in out
    assert "agrees with 5 or 6 drafted tokens" in out


def test_lines_of_data_parallel_ranks_are_those_of_each_rank(tmp_path, capsys) -> None:
    path = tmp_path / "server.log"
    ask = ["validate", "engine", "--watch", str(path), "--model", "deepseek-r1", "--hardware", "h200"]
    ask += ["--tp", "8", "--dp", "8", "--ep", "8", "--draft", "mtp", "--context", "4k"]
    for engine, log in (("vllm", vllm_log(100.0)), ("sglang", sglang_log(2.8, 0.6))):
        path.write_text(log.replace("Decode batch", "DP3 TP3] Decode batch"))
        run([*ask, "--engine", engine])
        running = 8 * (8 if engine == "vllm" else 4)
        assert f"requests: {running} running" in capsys.readouterr().out
    path.write_text(vllm_log(800.0).replace("Engine 000:", "8 Engines Aggregated:"))
    run([*ask, "--engine", "vllm"])
    assert "requests: 8 running" in capsys.readouterr().out


def test_at_most_two_positions_more_than_were_counted_are_recommended(tmp_path, capsys) -> None:
    """5.5 of 6 tokens: longer drafts than of 7 would be faster still, but nobody counted their positions."""
    _, out = watched(tmp_path, capsys, sglang_log(5.5, (5.5 - 1) / 5), "--engine", "sglang")
    changes = re.search(r"change: K = (\d+) \((\S+)x\) is faster than K = (\d+) \((\S+)x\)", out)
    assert changes is not None, out
    assert (changes[1], changes[3]) == ("7", "5")
    assert float(changes[2]) > float(changes[4]) > 1
    assert f"{changes[0]}; the acceptance of tokens beyond the first 5 is assumed" in out


def test_the_next_command_recommends_the_length_of_the_change(tmp_path, capsys) -> None:
    """The log counts 2.35 tokens of 3 drafted, and no position."""
    log = sglang_log(2.35, 0.59).replace("running-req: 4", "running-req: 1").replace("400.00", "150.00")
    _, out = watched(tmp_path, capsys, log, "--engine", "sglang")
    changes = re.search(r"change: K = (\d+) ", out)
    assert changes is not None, out
    assert run([*out.partition("run instead: perfmodel ")[2].split(), "--max-batch", "1"]) == 0
    schedule = capsys.readouterr().out
    assert re.search(rf"1-1 +{changes[1]} ", schedule), schedule


def test_the_next_command_has_every_flag_of_the_question(tmp_path, capsys) -> None:
    served = {"--weights": "fp8", "--kv-dtype": "fp8", "--memory-fraction": "0.8", "--draft-weights": "fp8"}
    served["--engine"] = "sglang"
    more = [word for pair in served.items() for word in pair]
    log = sglang_log(5.5, (5.5 - 1) / 5).replace("400.00", "4000.00")
    _, out = watched(tmp_path, capsys, log, *more)
    command = out.partition("run instead: ")[2].split()
    for flag, value in {**served, "--tp": "2"}.items():
        assert command[command.index(flag) + 1] == value
    assert run(command[1:]) == 0


def test_a_length_that_is_best_nowhere_has_no_ranges_of_requests(tmp_path, capsys) -> None:
    rates = (0.05, 0.01, 0.001)
    _, out = watched(tmp_path, capsys, vllm_log(predicted_tokens_per_s(rates), rates=rates))
    assert "change: no speculation is faster than K = 3 (" in out
    assert "is the best length" not in out


def test_a_log_of_drafts_needs_to_know_which(tmp_path, capsys) -> None:
    path = tmp_path / "server.log"
    path.write_text("speculative_config={'method': 'mtp', 'num_speculative_tokens': 3}\n" + vllm_log(100.0))
    ask = ["validate", "engine", "--watch", str(path), "--model", "qwen3.5-27b", "--hardware", "h100"]
    assert run(ask) == 2
    assert "--draft: must be given: " in (said := capsys.readouterr().err)
    assert "of method mtp" in said


def test_lines_of_vllm_0_8_need_the_draft_length(tmp_path, capsys) -> None:
    line = "SpecDecoding metrics: Draft acceptance rate: 51.7%, Accepted: 1550 tokens, Drafted: 3000 tokens\n"
    assert watched(tmp_path, capsys, line)[1].startswith("error: --gamma: must be given")
    assert "2.55 tokens per iteration" in watched(tmp_path, capsys, line, "--gamma", "3")[1]


def test_the_draft_length_of_the_servers_arguments_decides_between_two(tmp_path, capsys) -> None:
    """1.32 tokens at a rate of 0.11: three drafted tokens, or eleven with the bonus token."""
    log = sglang_log(1.32, 0.11)
    status, out = watched(tmp_path, capsys, log, "--engine", "sglang")
    assert status == 2
    assert "agrees with 2 or 3 or 10 or 11 or 12 drafted tokens" in out
    arguments = "server_args=ServerArgs(speculative_algorithm='EAGLE3', speculative_num_steps=3)\n"
    _, out = watched(tmp_path, capsys, arguments + log, "--engine", "sglang")
    assert "K = 3" in out
