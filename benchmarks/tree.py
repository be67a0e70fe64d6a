"""Verification over the number of nodes of a token tree, T_V(n) / T_T: measured, beside the engine's prediction.

    python benchmarks/tree.py                                            # a light model with a heavy cache, on a CPU
    python benchmarks/tree.py --model llama-3.1-8b --hardware h100 --dtype bf16 --batch 8 --context 16k

`tree` is Sequoia's tree of n nodes for --rates under its mask, `chain` n causal tokens: their distance is the mask's
price, which the engine says is nothing. All sizes are timed in turns in one process, on random weights and a random
cache, so that the ratios hold where the milliseconds do not. On CUDA every pass is captured: launches do not count.
"""

import argparse
import sys
import time
from collections.abc import Callable
from statistics import median

import torch

from perfmodel.answers.query import Query, resolve
from perfmodel.errors import InputError
from perfmodel.parse import parse_count, parse_counts, parse_numbers
from perfmodel.speculation.tree import TreeAcceptance
from perfmodel.speculation.tree_shape import sequoia
from perfmodel.validate.decoder.factory import make_decoder, start_random
from perfmodel.validate.decoder.pair import DTYPES
from perfmodel.validate.decoder.request import Request
from perfmodel.validate.decoder.topology import Topology
from perfmodel.validate.decoder.weights import load
from perfmodel.validate.records.plan import model_reference

Work = Callable[[], object]


def passes(batch: int, context: int, trees: list[Topology], args: argparse.Namespace) -> list[Work]:
    """The verification of each tree under its mask, a baseline step, and chains of the trees' sizes, over one cache."""
    device = torch.device(args.device)
    model = load(model_reference(args.model), "random:0", device, DTYPES[args.dtype])
    most = max(tree.size for tree in trees)
    made = make_decoder(model, Request(batch, context, 1, most, "ngram", attention=args.attention))
    start_random(made, context, 1)
    tokens = torch.arange(batch * most, device=device).view(batch, most) % model.spec.vocab_size
    runner = made.target

    def tree(shape: Topology) -> Work:
        sees = shape.sees[None]
        return lambda: model.logits(runner.extend(tokens[:, : shape.size], shape.depth, sees))

    def chain(nodes: int) -> Work:
        return lambda: model.logits(runner.extend(tokens[:, :nodes]))

    works = [*(tree(shape) for shape in trees), chain(1), *(chain(shape.size) for shape in trees)]
    return [captured(work) for work in works] if args.device == "cuda" else works


def captured(work: Work) -> Work:
    """A CUDA graph's replay of it."""
    work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay


def seconds(works: list[Work], device: str, repeats: int) -> list[float]:
    """Median seconds of each, all taken in turns; the first two rounds do not count."""
    taken: list[list[float]] = [[] for _ in works]
    for turn in range(repeats + 2):
        for work, times in zip(works, taken, strict=True):
            began = time.perf_counter()
            work()
            if device == "cuda":
                torch.cuda.synchronize()
            if turn > 1:
                times.append(time.perf_counter() - began)
    return [median(times) for times in taken]


def report(args: argparse.Namespace) -> None:
    """Measure and print."""
    batch, context = parse_count(args.batch, "--batch"), parse_count(args.context, "--context")
    rates = TreeAcceptance.of(parse_numbers(args.rates, "--rates"))
    nodes = [n for n in parse_counts(args.nodes, "--nodes") if n > 1]
    trees = [Topology(sequoia(n, args.levels, rates), torch.device(args.device)) for n in nodes]
    sizes = [tree.size for tree in trees]
    scenario = resolve(
        Query(
            model_reference(args.model),
            args.hardware,
            batch,
            context,
            weights=args.dtype,
            kv_dtype=args.dtype,
            alpha=0.0,
        )
    )
    step_s, *told_s = (float(scenario.target_pass_s(float(batch), float(context), float(n))) for n in (1, *sizes))
    with torch.inference_mode():
        taken = seconds(passes(batch, context, trees, args), args.device, args.repeats)
    tree_s, plain_s, chain_s = taken[: len(trees)], taken[len(trees)], taken[len(trees) + 1 :]
    print(
        f"{args.model}, {args.device}, {args.dtype}, batch {batch}, context {context}: T_T {plain_s * 1e3:.2f} ms, "
        f"{args.hardware} predicted {step_s * 1e3:.2f} ms"
    )
    print(f"{'nodes':>5} {'levels':>6} {'tree ms':>9} {'T_V/T_T':>8} {'chain':>8} {'predicted':>9} {'error':>7}")
    for tree, measured, causal, predicted in zip(trees, tree_s, chain_s, told_s, strict=True):
        ratio, expected = measured / plain_s, predicted / step_s
        print(
            f"{tree.size:5d} {tree.levels:6d} {measured * 1e3:9.2f} {ratio:8.2f} {causal / plain_s:8.2f} "
            f"{expected:9.2f} {expected / ratio - 1:+7.0%}"
        )


def main() -> None:
    """Parse the flags; what a user can get wrong is one line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cuda = torch.cuda.is_available()
    parser.add_argument("--model", default="kv-heavy", help="a model's name, or a shape of validate/plans/shapes")
    parser.add_argument("--hardware", default="xeon-amx-2core", help="device to predict for")
    parser.add_argument("--batch", default="2")
    parser.add_argument("--context", default="4k")
    parser.add_argument("--nodes", default="2,4,8,16,32,64", help="query tokens of a verification, the root included")
    parser.add_argument("--levels", type=int, default=8, help="most levels of a tree, the root's included")
    parser.add_argument("--rates", default="0.6,0.2,0.08,0.04,0.02", help="P(accepted) of a node's 1st, 2nd, ... child")
    parser.add_argument("--attention", default="auto", help="auto, math or sdpa")
    parser.add_argument("--dtype", choices=DTYPES, default="bf16")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if cuda else "cpu")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--repeats", type=int, default=9)
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    try:
        report(args)
    except InputError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
