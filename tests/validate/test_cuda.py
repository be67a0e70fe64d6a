"""What every measurement on a GPU rests on, run first: chance in a graph, a captured bf16 decode, a whole point."""

import json

import pytest
import torch

from perfmodel.validate.decoder import graphs
from perfmodel.validate.decoder.factory import make_decoder
from perfmodel.validate.decoder.generation import Generation, collect
from perfmodel.validate.decoder.request import Request
from perfmodel.validate.decoder.sampling import AcceptedTokens, draw
from perfmodel.validate.decoder.script import Script
from perfmodel.validate.harness.measure import run_plan
from perfmodel.validate.harness.side_by_side import difference
from perfmodel.validate.records.plan import load_plan
from perfmodel.validate.records.store import read_record
from tests.validate.tiny_plan import BLOCK, write

pytestmark = pytest.mark.cuda


def test_chance_inside_a_graph() -> None:
    """Every replay draws anew, as often as it should, and the same again from the same seed."""
    device = torch.device("cuda")
    share = torch.tensor([0.1, 0.2, 0.7], device=device).expand(1000, 3)
    script, out = Script([0.1, 0.2, 0.7], device), torch.zeros(2, 1000, dtype=torch.int64, device=device)
    judged = AcceptedTokens(out[0], out[0])

    def replays(seed: int) -> list[torch.Tensor]:
        generator = torch.Generator(device).manual_seed(seed)

        def work() -> None:
            out[0].copy_(draw(share, generator))
            out[1].copy_(script.instead_of(judged, generator).count)

        work()
        replay, found = graphs.record(work, generator), []
        for _ in range(20):
            replay()
            found.append(out.clone())
        return found

    found = replays(7)
    assert not any(torch.equal(found[0], later) for later in found[1:])
    assert all(torch.equal(one, two) for one, two in zip(found, replays(7), strict=True))
    for row in torch.stack(found, 1):
        counts = row.flatten().bincount(minlength=3) / row.numel()
        assert (counts - share[0]).abs().max() < 0.02, "five standard errors of 20,000 draws"


@pytest.mark.parametrize("more", [{"draft_kv": "snapkv:48"}, {"draft_kv": "quest:48"}, {"tree": (-1, 0, 0, 1)}])
def test_a_captured_bf16_decode_through_triton(make_model, more) -> None:
    """Token for token the eager one over the same bounds; another attention differs in near-ties at most."""
    model = make_model(dtype=torch.bfloat16, hidden_size=128, head_dim=64).to("cuda")
    prompts, new = [[1, 2, 3] * 20, [7], [5, 9] * 15], 100
    gamma = 2 if "tree" in more else 4
    asked = Request(3, 60, new, gamma, attention="triton", pointwise="triton", **more)
    found: list[Generation] = []
    for captured in (False, True):
        made = make_decoder(model, asked)
        state = made.start(prompts, new)
        if captured:
            graphs.capture(made, state)
        else:
            graphs.fix_bounds(made)
        made.finish(state)
        found.append(collect(state, prompts))
    assert found[0].tokens == found[1].tokens
    plain = make_decoder(model, Request(3, 60, new, attention="math", pointwise="torch")).generate(prompts, new)
    told = difference(model, asked, prompts, plain, found[1])
    assert told is None or told.margin < 8, told


def test_a_whole_point(tmp_path) -> None:
    """Both modes of every KV method with captured graphs and device events, as a plan has them."""
    methods = ["streamingllm:64", "streamingllm:64,own_prefill=true", "snapkv:64", "quest:64"]
    plan = write(tmp_path, device="cuda", threads=None, grid=[{**BLOCK, "draft_kv": methods, "context": [256]}])
    path = run_plan(load_plan(str(plan)), "t-1", results=tmp_path)
    record = read_record(path)
    assert len(record.rows) == 2 * 2 * len(methods)
    assert [row.error for row in record.failures()] == []
    assert {(row.graphs, row.attention) for row in record.rows} == {(True, "triton")}
    assert json.loads(path.read_text())["protocol"]["timer"] == "cuda_event"
