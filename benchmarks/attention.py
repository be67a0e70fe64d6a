"""Decode attention by implementation and query count: bandwidth against the peak, and how often the cache is
re-read.

    python benchmarks/attention.py --hardware h200-sxm-141gb                 # Llama-3.1-8B's shape, B=32,
    S=16K, bf16 python benchmarks/attention.py --batch 4 --context 4k --dtype fp32       # something a CPU can
    do python benchmarks/attention.py --sweep --queries 1,5                     # Triton's tiles, warps,
    stages and splits

`re-read` is the time of n query tokens over that of one: 1 where a verification reads the cache once, n where
a kernel packs one query token per sequence. For comparison only: `unfolded`, torch's own call with
`enable_gqa`, and `flash` and `cudnn`, its FlashAttention-2 and cuDNN over an unmasked cache without the new
tokens.
"""

import argparse
import itertools
import json
import math
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import torch
import torch.nn.functional as F
from torch import Tensor

from perfmodel.errors import InputError
from perfmodel.parse import parse_count, parse_counts
from perfmodel.specs.devices.gpu import load_gpu
from perfmodel.validate.decoder.attention import Span, fold
from perfmodel.validate.decoder.backends import choose
from perfmodel.validate.decoder.pair import DTYPES

HEADS, KV_HEADS, HEAD_DIM = 32, 8, 128
LAYERS = 4
"""Caches to rotate over, so that none stays on the chip."""
Work = Callable[[Tensor, Tensor, Tensor, Span, Tensor, Tensor], Tensor]


def unfolded(q: Tensor, k: Tensor, v: Tensor, span: Span, new_k: Tensor, new_v: Tensor) -> Tensor:
    """One call over cache and new tokens (which a decoder would have to have copied behind the cache)."""
    n, bound = q.shape[2], span.bound
    position, own = torch.arange(bound, device=q.device), bound - n + torch.arange(n, device=q.device)
    return F.scaled_dot_product_attention(
        q, k[:, :, :bound], v[:, :, :bound], attn_mask=position <= own[:, None], enable_gqa=True
    )


def by_torch(backend: str) -> Work:
    """Torch's own call with one of its backends, folded, over the cache alone: FlashAttention-2 splits it,
    too.
    """
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def work(q: Tensor, k: Tensor, v: Tensor, span: Span, new_k: Tensor, new_v: Tensor) -> Tensor:
        with sdpa_kernel(getattr(SDPBackend, f"{backend.upper()}_ATTENTION")):
            return F.scaled_dot_product_attention(
                fold(q, k.shape[1]), k[:, :, : span.bound], v[:, :, : span.bound]
            )

    return work


def implementations(
    names: list[str], device: torch.device, dtype: torch.dtype, sweep: bool
) -> dict[str, Work]:
    """The asked-for ones that this machine has; of Triton's every tuning where it is swept."""
    found: dict[str, Work] = {}
    for name in names:
        try:
            work = BASELINES[name] if name in BASELINES else choose(name, device, dtype)
        except InputError as error:
            print(f"{name}: left out: {error}", file=sys.stderr)
            continue
        if name == "triton" and sweep:
            found |= tunings()
        else:
            found[name] = work
    return found


BASELINES = {"unfolded": unfolded, "flash": by_torch("flash"), "cudnn": by_torch("cudnn")}
"""Not the decoder's: for comparison only."""


def tunings() -> dict[str, Work]:
    """Triton's kernel by tile, warps, stages and programs for each multiprocessor."""
    from perfmodel.validate.decoder.triton_attention import SplitKV, Tuning

    return {
        f"triton {block}/{warps}/{stages}/{programs}": SplitKV(Tuning(block, warps, stages, programs))
        for block, warps, stages, programs in itertools.product((32, 64, 128), (4, 8), (2, 3, 4), (2, 4, 8))
    }


def seconds(work: Callable[[], object], device: torch.device, repeats: int) -> float:
    """Median seconds of one call; on CUDA the calls are captured, so that launches do not count."""
    for _ in range(3):
        work()
    if device.type == "cuda":
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            work()
        work = graph.replay
    taken = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize()
        taken.append(time.perf_counter() - began)
    return median(taken)


def main() -> None:
    """Print a line for each implementation and query count; with --json, write one JSON object each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batch", default="32")
    parser.add_argument("--context", default="16k")
    parser.add_argument("--queries", default="1,2,3,5,8,9")
    parser.add_argument("--dtype", choices=DTYPES, default="bf16")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--implementations", default="triton,sdpa,math,unfolded,flash,cudnn")
    parser.add_argument("--hardware", help="device whose peak bandwidth to compare with")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument(
        "--sweep", action="store_true", help="every tuning of triton: tile/warps/stages/programs"
    )
    parser.add_argument("--json", type=Path, help="write the rows to this file, one a line")
    args = parser.parse_args()
    try:
        report(args)
    except InputError as error:
        sys.exit(f"error: {error}")


def report(args: argparse.Namespace) -> None:
    """Measure and print."""
    device, dtype = torch.device(args.device), DTYPES[args.dtype]
    batch, context = parse_count(args.batch, "--batch"), parse_count(args.context, "--context")
    peak = load_gpu(args.hardware).memory_bandwidth_bytes_per_s if args.hardware else math.nan
    made = partial(torch.randn, device=device, dtype=dtype)
    keys, values = (made(LAYERS, batch, KV_HEADS, context, HEAD_DIM) for _ in "kv")
    read = keys[0].nbytes + values[0].nbytes
    setting = {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "torch": torch.__version__,
        "dtype": args.dtype,
        "batch": batch,
        "context": context,
        "heads": HEADS,
        "kv_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
    }
    span = Span(torch.full((batch,), context, device=device), context)
    rows = []
    for name, attend in implementations(args.implementations.split(","), device, dtype, args.sweep).items():
        one = math.nan
        for n in parse_counts(args.queries, "--queries"):
            q = made(batch, HEADS, n, HEAD_DIM)
            new_k, new_v = (made(batch, KV_HEADS, n, HEAD_DIM) for _ in "kv")

            def layers(
                attend: Work = attend, q: Tensor = q, new_k: Tensor = new_k, new_v: Tensor = new_v
            ) -> None:
                for k, v in zip(keys, values, strict=True):
                    attend(q, k, v, span, new_k, new_v)

            try:
                with torch.inference_mode():
                    call = seconds(layers, device, args.repeats) / LAYERS
            except Exception as error:  # a tuning that the device's shared memory does not hold
                print(f"{name} n={n}: left out: {' '.join(str(error).split())[:120]}", file=sys.stderr)
                continue
            one = call if n == 1 else one
            row = {
                **setting,
                "implementation": name,
                "queries": n,
                "call_s": call,
                "bytes_per_s": read / call,
                "share_of_peak": read / call / peak,
                "reread": call / one,
            }
            rows.append({key: None if value != value else value for key, value in row.items()})
            share = f"{row['share_of_peak']:6.1%} of peak" if args.hardware else ""
            rate = f"{call * 1e3:9.3f} ms {read / call / 1e9:8.1f} GB/s {share}"
            print(f"{name:16} n={n:<3} {rate} re-read {call / one:5.2f}", flush=True)
    if args.json:
        args.json.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()
