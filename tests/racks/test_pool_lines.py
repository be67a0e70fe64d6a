"""The command lines that start a prefill pool and a decode pool, where `advise` names two pools."""

import json
import shlex
from functools import cache
from typing import Any

import pytest

import perfmodel as pm
from perfmodel.answers.advice.pools.option import PoolOption
from tests.answers.advise.loads import alternative
from tests.engine.flags import vocabularies

LOAD = {"input_len": 4096, "output_len": 1024, "slo": "tpot:40"}


def words_of(line: str, engine: str) -> dict[str, str | None]:
    """The flags of a line with their values, as the parser of the engine takes them."""
    start = "serve" if engine == "vllm" else "sglang.launch_server"
    words = shlex.split(line)
    words = words[words.index(start) + 1 :]
    return vocabularies()[engine].values(words[1:] if engine == "vllm" else words)


@cache
def two_pools(engine: str) -> PoolOption:
    """Two pools of eight GPUs each, without a draft."""
    answer = pm.advise("deepseek-v3.2", "16xh200", engine=engine, request_rate=5, **LOAD)
    assert answer.pools.router
    return answer.pools.chosen


def seats_of(option: PoolOption) -> list[int]:
    """The most requests that one server of each SGLang pool runs at once, as its line says."""
    return [int(words_of(servers.line, "sglang")["--max-running-requests"]) for servers in option.start]


def of_two(model: str, hardware: str, **load: Any) -> PoolOption:
    """Two pools of SGLang servers without a draft."""
    answer = pm.advise(model, hardware, engine="sglang", draft="ngram", request_rate=5, **load)
    return answer.pools.best(two=True, drafts=False)


def test_eight_gpus_that_do_not_suffice_name_two_pools_of_fewer_gpus_than_one() -> None:
    answer = pm.advise("deepseek-v3.2", "8xh200", engine="sglang", request_rate=5, **LOAD)
    one = alternative(answer, "40 GPUs suffice: ")
    assert one.servers == 5
    prefill = alternative(
        answer, "Two pools of 16 GPUs suffice: prefill TP 2 DP 4, decode TP 2 DP 4, no draft"
    )
    decode = alternative(answer, "The decode pool")
    assert words_of(prefill.line, "sglang")["--disaggregation-mode"] == "prefill"
    assert words_of(decode.line, "sglang")["--disaggregation-mode"] == "decode"
    assert "--pd-disaggregation" in alternative(answer, "The router").text


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_both_pools_have_a_line_with_the_parallel_degrees_of_their_servers(engine: str) -> None:
    prefill, decode = two_pools(engine).start
    assert (prefill.pool, decode.pool) == ("prefill", "decode")
    for servers in (prefill, decode):
        said = words_of(servers.line, engine)
        groups = servers.layout.partition("DP ")[2].partition(" ")[0]
        assert int(groups) > 1
        if engine == "vllm":
            assert json.loads(said["--kv-transfer-config"])["kv_connector"] == "NixlConnector"
            assert said["--data-parallel-size"] == groups
        else:
            assert said["--attn-dp-size"] == groups
        assert servers.servers == 1


def test_the_servers_of_both_pools_have_the_seats_that_fit_in_memory() -> None:
    """Five requests per second of 1,024 tokens fill 175 seats at a TPOT of 34 ms. Each of the eight attention
    groups of the prefill server has memory for 63 requests, and the decode server for 506.
    """
    option = two_pools("sglang")
    assert round(5 * 1024 * option.tpot_s) == 175
    assert seats_of(option) == [8 * 63, 506]
    assert option.most_requests_per_s > 1.5 * 5  # the highest rate would fill more seats


def test_a_stated_limit_is_that_of_each_attention_group_of_its_own_pool() -> None:
    option = of_two("deepseek-v3.2", "16xh200", max_num_seqs=16, **LOAD)
    prefill, decode = option.start
    assert (prefill.layout, decode.layout) == ("TP 4 DP 2", "DP 8")
    assert seats_of(option) == [2 * 16, 8 * 16]


def test_a_server_on_two_nodes_says_how_the_line_of_the_second_differs() -> None:
    for servers in of_two("kimi-k2", "32xh200", tp=(16,), **LOAD).start:
        assert " --nnodes 2 --node-rank 0 --dist-init-addr HEAD:5000 " in servers.line
        assert servers.nodes == "HEAD stands for the address of node 0; node 1 has --node-rank 1"
    assert [servers.nodes for servers in two_pools("sglang").start] == ["", ""]


def test_an_open_number_of_gpus_names_two_pools_that_need_fewer() -> None:
    answer = pm.advise("deepseek-v3.2", "h200", engine="sglang", request_rate=5, **LOAD)
    assert answer.chosen.gpus > 16
    alternative(answer, "Two pools of 16 GPUs suffice: ")
