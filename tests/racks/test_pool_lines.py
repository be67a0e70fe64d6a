"""The command lines that start a prefill pool and a decode pool, where `advise` names two pools."""

import json
import shlex

import pytest

import perfmodel as pm
from tests.answers.advise.loads import alternative
from tests.engine.flags import vocabularies

LOAD = {"input_len": 4096, "output_len": 1024, "slo": "tpot:40"}


def words_of(line: str, engine: str) -> dict[str, str | None]:
    """The flags of a line with their values, as the parser of the engine takes them."""
    start = "serve" if engine == "vllm" else "sglang.launch_server"
    words = shlex.split(line)
    words = words[words.index(start) + 1 :]
    return vocabularies()[engine].values(words[1:] if engine == "vllm" else words)


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
    pools = pm.advise("deepseek-v3.2", "16xh200", engine=engine, request_rate=5, **LOAD).pools
    assert pools.router
    prefill, decode = pools.chosen.start
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


def test_an_open_number_of_gpus_names_two_pools_that_need_fewer() -> None:
    answer = pm.advise("deepseek-v3.2", "h200", engine="sglang", request_rate=5, **LOAD)
    assert answer.chosen.gpus > 16
    alternative(answer, "Two pools of 16 GPUs suffice: ")
