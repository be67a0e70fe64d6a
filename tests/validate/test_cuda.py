"""What every measurement on a GPU rests on, run first: chance in a graph, a captured bf16 decode, a whole
point.
"""

import json
from dataclasses import replace

import pytest
import torch

from perfmodel.validate.decoder import (
    AcceptedTokens,
    Generation,
    RandomWeights,
    Request,
    backends,
    build,
    collect,
    fp8,
    graphs,
    make_decoder,
)
from perfmodel.validate.decoder.pointwise import Pointwise
from perfmodel.validate.decoder.sampling import Script, draw
from perfmodel.validate.harness.measure import run_plan
from perfmodel.validate.harness.side_by_side import difference
from perfmodel.validate.records import load_plan, read_record
from tests.validate.tiny_model import tiny_spec
from tests.validate.tiny_plan import BLOCK, write_plan

pytestmark = pytest.mark.cuda


def test_chance_inside_a_graph() -> None:
    """Every replay draws anew, as often as it should, and the same again from the same seed."""
    device = torch.device("cuda")
    share = torch.tensor([0.1, 0.2, 0.7], device=device).expand(1000, 3)
    script = Script([0.1, 0.2, 0.7], device)
    out = torch.zeros(2, 1000, dtype=torch.int64, device=device)
    judged = AcceptedTokens(out[0], out[0])

    def replays(seed: int) -> list[torch.Tensor]:
        generator = torch.Generator(device).manual_seed(seed)

        def work() -> None:
            out[0].copy_(draw(share, generator))
            out[1].copy_(script(judged, generator).count)

        work()
        replay = graphs.captured(work, generator)
        draws = []
        for _ in range(20):
            replay()
            draws.append(out.clone())
        return draws

    first = replays(7)
    assert not any(torch.equal(first[0], later) for later in first[1:])
    assert all(torch.equal(one, two) for one, two in zip(first, replays(7), strict=True))
    for row in torch.stack(first, 1):
        counts = row.flatten().bincount(minlength=3) / row.numel()
        assert (counts - share[0]).abs().max() < 0.02, "five standard errors of 20,000 draws"


@pytest.mark.parametrize(
    "more", [{"draft_kv": "snapkv:48"}, {"draft_kv": "quest:48"}, {"tree": (-1, 0, 0, 1)}]
)
def test_lossless_greedy(make_model, more) -> None:
    """In float64 the tokens are those of plain decoding on the CPU."""
    prompts = [[1, 2, 3] * 20, [7], [5, 9] * 15]
    new = 100
    request = Request(3, 60, new, 2 if "tree" in more else 4, **more)
    plain = make_decoder(make_model(), request.plain()).generate(prompts, new)
    assert make_decoder(make_model().to("cuda"), request).generate(prompts, new).tokens == plain.tokens


@pytest.mark.parametrize(
    "more", [{"draft_kv": "snapkv:48"}, {"draft_kv": "quest:48"}, {"tree": (-1, 0, 0, 1)}]
)
def test_a_captured_bf16_decode_through_triton(make_model, more) -> None:
    """Token for token the eager one over the same bounds; another attention differs in near-ties at most."""
    model = make_model(dtype=torch.bfloat16, hidden_size=128, head_dim=64).to("cuda")
    prompts = [[1, 2, 3] * 20, [7], [5, 9] * 15]
    new = 100
    gamma = 2 if "tree" in more else 4
    request = Request(3, 60, new, gamma, attention="triton", pointwise="triton", **more)
    generations: list[Generation] = []
    for captured in (False, True):
        decoder = make_decoder(model, request)
        state = decoder.start(prompts, new)
        if captured:
            graphs.capture(decoder, state)
        else:
            graphs.fix_bounds(decoder)
        decoder.finish(state)
        generations.append(collect(state, prompts))
    assert generations[0].tokens == generations[1].tokens
    plain = make_decoder(model, Request(3, 60, new, attention="math", pointwise="torch")).generate(
        prompts, new
    )
    largest = difference(model, request, prompts, plain, generations[1])
    assert largest is None or largest.margin < 8, largest


def test_fp8_weights_and_cache_through_triton() -> None:
    """The product is the CPU's of the same codes, and a decode through all kernels is that of torch's own."""
    device = torch.device("cuda")
    source = RandomWeights(0, device, torch.bfloat16, 0.3)
    if not fp8.multiplies(device):
        pytest.skip("compute capability below 8.9")
    weight = torch.randn(320, 1024, device=device).bfloat16()
    bias = torch.randn(320, device=device).bfloat16()
    codes, scale = fp8.by_row(weight, weight.abs().amax(1, keepdim=True))
    for rows in (1, 5, 24, 50, 100, 200):  # every tile, and the library's product
        x = torch.randn(rows, 1024, device=device).bfloat16()
        row_codes, row_scale = fp8.by_row(x, x.abs().amax(1, keepdim=True))
        by_cpu = (row_codes.double() * row_scale) @ (codes.double() * scale).T + bias.double()
        actual = fp8.product(x, codes, scale[:, 0], bias).double()
        torch.testing.assert_close(actual, by_cpu, rtol=2e-2, atol=2e-1)
    model = build(tiny_spec(hidden_size=128, head_dim=64), source, fp8=True)
    prompts = [[1, 2, 3] * 20, [7], [5, 9] * 15]
    new = 100
    request = Request(3, 60, new, 4, draft_kv="snapkv:48", kv_dtype="fp8")
    drafted = make_decoder(model, request).generate(prompts, new)
    plain = make_decoder(model, replace(request.plain(), attention="math", pointwise="torch")).generate(
        prompts, new
    )
    largest = difference(model, request, prompts, plain, drafted)
    assert largest is None or largest.margin < 64, largest


def test_fp8_experts_are_those_of_the_cpu() -> None:
    """By the grouped product of Hopper or in registers: rows are rounded there, and here only weights are."""
    device = torch.device("cuda")
    generator = torch.Generator().manual_seed(0)
    if not fp8.multiplies(device):
        pytest.skip("compute capability below 8.9")
    weights = torch.randn(5, 64, 128, generator=generator)
    rows = torch.randn(9, 128, generator=generator).bfloat16()
    codes, scale = fp8.by_row(weights.flatten(0, 1), weights.abs().amax(-1).view(-1, 1))
    grouped = codes.view(weights.shape), torch.tensor([0, 0, 1, 1, 1, 3, 3, 4, 4]), scale.view(5, 64)
    by_cpu = Pointwise().by_expert(rows.float(), *grouped)
    kernels = backends.pointwise("triton", device, torch.bfloat16)
    actual = kernels.by_expert(rows.to(device), *(tensor.to(device) for tensor in grouped)).float().cpu()
    assert (actual - by_cpu).norm() < 0.05 * by_cpu.norm()


def test_a_whole_point(tmp_path) -> None:
    """Both modes of every KV method with captured graphs and device events, as a plan has them."""
    methods = ["streamingllm:64", "streamingllm:64,own_prefill=true", "snapkv:64", "quest:64"]
    plan = write_plan(
        tmp_path, device="cuda", threads=None, grid=[{**BLOCK, "draft_kv": methods, "context": [256]}]
    )
    path = run_plan(load_plan(str(plan)), "t-1", results=tmp_path)
    record = read_record(path)
    assert len(record.rows) == 2 * 2 * len(methods)
    assert [row.error for row in record.failures()] == []
    assert {(row.graphs, row.attention) for row in record.rows} == {(True, "triton")}
    assert json.loads(path.read_text())["protocol"]["timer"] == "cuda_event"
