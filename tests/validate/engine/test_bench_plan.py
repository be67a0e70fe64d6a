"""A plan of runs: its loads, the lines that start a server with its draft, and the names of its files."""

from dataclasses import replace

import pytest

from perfmodel.validate.engine.bench_commands import BenchRequest, commands, loads
from perfmodel.validate.engine.sources import BenchFile
from perfmodel.validate.engine.timing import GivenFacts
from tests.refusals import refused

POINTS: tuple[tuple[int, ...], tuple[int, ...], int] = (1, 4, 16), (512, 4096), 256


PLAN = BenchRequest("m", "vllm", 1, "draft_model", None, (2, 7), *POINTS, (), "results/a", True)


STARTS = {
    (
        "vllm",
        "draft_model",
        None,
    ): '\'{"method": "draft_model", "model": "DRAFT", "num_speculative_tokens": 2, '
    '"rejection_sample_method": "synthetic", "synthetic_acceptance_rates": [0.8, 0.64]}\'',
    ("vllm", "mtp", "d"): '\'{"method": "mtp", "num_speculative_tokens": 2, '
    '"rejection_sample_method": "synthetic", "synthetic_acceptance_rates": [0.8, 0.64]}\'',
    ("sglang", "eagle3", "d"): "--speculative-algorithm EAGLE3 --speculative-draft-model-path d "
    "--speculative-num-draft-tokens 3 --speculative-num-steps 2 --speculative-eagle-topk 1",
    ("sglang", "mtp", "d"): "--speculative-algorithm NEXTN --speculative-num-draft-tokens 3 "
    "--speculative-num-steps 2 --speculative-eagle-topk 1",
    ("sglang", "dspark", None): "--speculative-algorithm DSPARK --speculative-draft-model-path DRAFT "
    "--speculative-num-draft-tokens 3 --speculative-dspark-block-size 2",
    ("sglang", "dflash", "d"): "--speculative-algorithm DFLASH --speculative-draft-model-path d "
    "--speculative-num-draft-tokens 3",
    ("llama.cpp", "draft_model", "d"): "-m m --spec-type draft-simple -md d "
    "--spec-draft-n-max 2 --spec-draft-n-min 2 --spec-draft-p-min 0 -np 16",
}


def starts(plan: BenchRequest) -> list[str]:
    """The lines that start a server."""
    return [line for line in commands(plan) if line.endswith("server=$!")]


@pytest.mark.parametrize("case", STARTS)
def test_a_server_is_started_with_its_draft(case) -> None:
    engine, method, draft = case
    plan = replace(PLAN, engine=engine, method=method, draft=draft)
    plain = starts(plan)
    two = starts(replace(plan, tp=2))
    assert plain[-2].endswith(f" {STARTS[case]} --port 8101 & server=$!")
    assert plain[-1].endswith("--port 8102 & server=$!")
    assert engine != "vllm" or "0.64, 0.512, 0.4096, 0.3277, 0.2621, 0.2097]" in plain[-1]
    parallel = {"vllm": " --tensor-parallel-size ", "sglang": " --tp ", "llama.cpp": "llama-server "}[engine]
    assert all(parallel in line for line in two)
    assert engine == "llama.cpp" or not any(parallel in line for line in plain)


def test_a_plan_has_every_batch_at_the_shorter_prompt_and_the_ends_at_the_longer() -> None:
    short = [(batch, 512, 256) for batch in (1, 4, 16)]
    long = [(batch, 4096, 256) for batch in (1, 16)]
    plan = [(load.batch, load.prompt, load.tokens) for load in loads(*POINTS)]
    assert plan == [*short, *long]
    assert len(loads((4,), *POINTS[1:])) == 2
    refused("no engine named 'x'", commands, replace(PLAN, engine="x"))


def test_what_stands_behind_the_name_of_a_file() -> None:
    (one,) = BenchFile.parse("x.json,batch=0,input=2.5,gamma=3")
    assert one.facts == GivenFacts(batch=0.0, input=2.5, gamma=3)
    assert BenchFile.parse("x.json")[0].facts == GivenFacts()
    for bad in ("batch", "batch=", "speed=1", "batch=1e9", "batch=-1", "gamma=2.5"):
        refused("--from", BenchFile.parse, f"x.json,{bad}")
