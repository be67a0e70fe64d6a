"""Decode attention by implementation and query count: bandwidth against what the device copies, and how often
the cache is re-read.

    python benchmarks/attention.py --hardware h200-sxm-141gb      # Llama-3.1-8B's shape, B=32, S=16K, bf16
    python benchmarks/attention.py --batch 24,8,4 --context 16k,64k,128k --queries 1,2,4,8   # split and not
    python benchmarks/attention.py --batch 4 --context 4k --dtype fp32            # something a CPU can do
    python benchmarks/attention.py --sweep --queries 1,5 --best tuning.json    # benchmarks/tunings.json tried

The device's own ceilings come first: a copy (bytes read and written), a sum (read), a large matrix product.
`re-read` is the time of n query tokens over that of one: 1 where a verification reads the cache once, n where
a kernel packs one query token per sequence. `triton-unsplit` verifies in one stretch of the cache for each
KV head. For comparison only: `unfolded`, torch's own call with `enable_gqa`; `flash` and `cudnn`, its
FlashAttention-2 and cuDNN over an unmasked cache without the new tokens; `flash-unsplit`, the same
FlashAttention-2 over packed sequences, where it does not split the keys.
"""

import argparse
import json
import math
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from perfmodel.errors import InputError
from perfmodel.parse import parse_counts
from perfmodel.specs import load_gpu
from perfmodel.validate.decoder import CacheSpan
from perfmodel.validate.decoder.attention import fold
from perfmodel.validate.decoder.backends import choose
from perfmodel.validate.decoder.pair import DTYPES
from perfmodel.validate.decoder.tuning import Tuning

TUNINGS = Path(__file__).with_name("tunings.json")

HEADS = 32
KV_HEADS = 8
HEAD_DIM = 128
Work = Callable[[Tensor, Tensor, Tensor, CacheSpan, Tensor, Tensor], Tensor]


def unfolded(q: Tensor, k: Tensor, v: Tensor, span: CacheSpan, new_k: Tensor, new_v: Tensor) -> Tensor:
    """One call over cache and new tokens (which a decoder would have to have copied behind the cache)."""
    n = q.shape[2]
    bound = span.bound
    position = torch.arange(bound, device=q.device)
    own = bound - n + torch.arange(n, device=q.device)
    return F.scaled_dot_product_attention(
        q, k[:, :, :bound], v[:, :, :bound], attn_mask=position <= own[:, None], enable_gqa=True
    )


def by_torch(backend: str) -> Work:
    """Torch's own call with one of its backends, folded, over the cache alone: FlashAttention-2 splits it,
    too.
    """
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def work(q: Tensor, k: Tensor, v: Tensor, span: CacheSpan, new_k: Tensor, new_v: Tensor) -> Tensor:
        with sdpa_kernel(getattr(SDPBackend, f"{backend.upper()}_ATTENTION")):
            return F.scaled_dot_product_attention(
                fold(q, k.shape[1]), k[:, :, : span.bound], v[:, :, : span.bound]
            )

    return work


def flash_unsplit(q: Tensor, k: Tensor, v: Tensor, span: CacheSpan, new_k: Tensor, new_v: Tensor) -> Tensor:
    """A sequence of its own for each KV head of each sequence, rows folded."""
    rows = fold(q, k.shape[1])
    d = k.shape[3]
    queries, keys, values = (part.reshape(-1, 1, d) for part in (rows, k, v))
    starts = (
        torch.arange(len(keys) // k.shape[2] + 1, dtype=torch.int32, device=q.device) * n
        for n in (rows.shape[2], k.shape[2])
    )
    return torch.ops.aten._flash_attention_forward(
        queries, keys, values, *starts, rows.shape[2], k.shape[2], 0.0, False, False
    )[0]


def implementations(names: list[str], device: torch.device, dtype: torch.dtype) -> dict[str, Work]:
    """The asked-for ones that this machine has."""
    found: dict[str, Work] = {}
    for name in filter(None, names):
        try:
            found[name] = BASELINES[name] if name in BASELINES else choose(name, device, dtype)
        except InputError as error:
            print(f"{name}: left out: {error}", file=sys.stderr)
    return found


BASELINES = {
    "unfolded": unfolded,
    "flash": by_torch("flash"),
    "flash-unsplit": flash_unsplit,
    "cudnn": by_torch("cudnn"),
}
"""Not the decoder's: for comparison only."""


def candidates(tile: int) -> dict[str, Work]:
    """Triton's kernel by the tunings of a tile of rows that are worth a sweep."""
    from perfmodel.validate.decoder.triton_attention import SplitKV

    tunings = json.loads(TUNINGS.read_text(encoding="utf-8"))[str(tile)]
    return {json.dumps(given): SplitKV(Tuning(**given)) for given in tunings}


def ceilings(device: torch.device, dtype: torch.dtype) -> list[dict[str, object]]:
    """Bytes or FLOPs per second of a copy, a sum and a matrix product, on random data beyond any cache."""
    size, n = (2**30, 8192) if device.type == "cuda" else (2**26, 1024)
    source = torch.randn(size // 4, device=device)
    sink = torch.empty(size // 4, device=device)
    square = torch.randn(n, n, device=device, dtype=dtype)
    works: list[tuple[str, Callable[[], object], float]] = [
        ("copy", lambda: torch.neg(source, out=sink), 2.0 * size),  # a captured copy_ is the copy engine's
        ("read", lambda: source.sum(), 1.0 * size),
        ("matmul", lambda: square @ square, 2.0 * n**3),
    ]
    found = []
    for name, work, amount in works:
        rate = amount / seconds(work, device, 10)
        unit = "flops_per_s" if name == "matmul" else "bytes_per_s"
        print(f"{name:16} {rate / 1e12:9.3f} {'TFLOP/s' if name == 'matmul' else 'TB/s'}", flush=True)
        found.append({"implementation": name, unit: rate})
    return found


def seconds(work: Callable[[], object], device: torch.device, repeats: int) -> float:
    """Median seconds of one call; on CUDA the calls are captured, so that launches do not count."""
    for _ in range(3 if device.type == "cuda" else 1):
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
    """Print a line for each timing, then a table; with --json, write an object each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batch", default="32", help="one, or one for each context")
    parser.add_argument("--context", default="16k")
    parser.add_argument("--queries", default="1,2,3,5,8,9")
    parser.add_argument("--dtype", choices=DTYPES, default="bf16")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument(
        "--implementations", default="triton,triton-unsplit,sdpa,math,unfolded,flash,flash-unsplit,cudnn"
    )
    parser.add_argument("--hardware", help="device whose peak bandwidth to compare with")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument(
        "--layers", type=int, default=4, help="caches that take turns, so that none stays on the chip"
    )
    parser.add_argument("--sweep", action="store_true", help="the tunings of benchmarks/tunings.json instead")
    parser.add_argument(
        "--best", type=Path, help="write the fastest tunings of a sweep, by rows, to this file"
    )
    parser.add_argument("--json", type=Path, help="write the rows to this file, one a line")
    args = parser.parse_args()
    try:
        report(args)
    except InputError as error:
        sys.exit(f"error: {error}")


def report(args: argparse.Namespace) -> None:
    """Measure and print."""
    device = torch.device(args.device)
    dtype = DTYPES[args.dtype]
    batches = parse_counts(args.batch, "--batch")
    contexts = parse_counts(args.context, "--context")
    batches = batches * len(contexts) if len(batches) == 1 else batches
    if len(batches) != len(contexts):
        raise InputError("--batch: must be one, or one for each context")
    peak = load_gpu(args.hardware).memory_bandwidth_bytes_per_s if args.hardware else math.nan
    setting = {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "torch": torch.__version__,
        "dtype": args.dtype,
        "heads": HEADS,
        "kv_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
    }
    with torch.inference_mode():
        rows = [{**setting, **found} for found in ceilings(device, dtype)]
        for place in zip(batches, contexts, strict=True):
            timed = attended(args, device, dtype, place, (peak, float(str(rows[0]["bytes_per_s"]))))
            rows += [{**setting, **row} for row in timed]
    if args.json:
        args.json.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    print(summary([row for row in rows if "queries" in row]))
    if args.best:
        args.best.write_text(json.dumps(fastest(rows), indent=1) + "\n", encoding="utf-8")
        print(f"{args.best}: {fastest(rows)}")


def attended(
    args: argparse.Namespace,
    device: torch.device,
    dtype: torch.dtype,
    place: tuple[int, int],
    ceiling: tuple[float, float],
) -> list[dict[str, object]]:
    """A row for each implementation and query count at one batch and context; ceiling: peak and copy, in
    bytes/s.
    """
    (batch, context), rows, ones = place, list[dict[str, object]](), dict[str, float]()
    made = partial(torch.randn, device=device, dtype=dtype)
    keys, values = (made(args.layers, batch, KV_HEADS, context, HEAD_DIM) for _ in "kv")
    read = keys[0].nbytes + values[0].nbytes
    span = CacheSpan(torch.full((batch,), context, device=device), context)
    for n in parse_counts(args.queries, "--queries"):
        tile = min(64, max(16, 1 << (HEADS // KV_HEADS * n - 1).bit_length()))
        named = (
            candidates(tile)
            if args.sweep
            else implementations(args.implementations.split(","), device, dtype)
        )
        q = made(batch, HEADS, n, HEAD_DIM)
        new_k, new_v = (made(batch, KV_HEADS, n, HEAD_DIM) for _ in "kv")
        for name, attend in named.items():

            def layers(
                attend: Work = attend, q: Tensor = q, new_k: Tensor = new_k, new_v: Tensor = new_v
            ) -> None:
                for k, v in zip(keys, values, strict=True):
                    attend(q, k, v, span, new_k, new_v)

            try:
                call = seconds(layers, device, args.repeats) / args.layers
            except Exception as error:  # a tuning that the device's shared memory does not hold
                print(f"{name} n={n}: left out: {' '.join(str(error).split())[:120]}", file=sys.stderr)
                continue
            ones.setdefault(name, call if n == 1 else math.nan)
            figures = {"call_s": call, "bytes_per_s": read / call, "reread": call / ones[name]}
            shares = {
                f"share_of_{of}": read / call / most
                for of, most in zip(("peak", "copy"), ceiling, strict=True)
            }
            at = {"batch": batch, "context": context, "implementation": name, "queries": n, "tile": tile}
            row = at | {key: None if value != value else value for key, value in (figures | shares).items()}
            rows.append(row)
            print(f"{line(row)} {name}", flush=True)
    return rows


def line(row: dict[str, Any]) -> str:
    """One timing."""
    shares = [f"{row[f'share_of_{of}']:6.1%} of {of}" for of in ("peak", "copy") if row[f"share_of_{of}"]]
    again = "" if row["reread"] is None else f"re-read {row['reread']:5.2f}"
    where = f"{row['batch']:3} x {row['context']:<6} n={row['queries']:<2}"
    rate = f"{row['call_s'] * 1e3:9.3f} ms {row['bytes_per_s'] / 1e9:8.1f} GB/s"
    return f"{where} {rate} {' '.join(shares)} {again}"


def summary(rows: list[dict[str, Any]]) -> str:
    """Milliseconds by place and implementation, a column for each query count."""
    counts = sorted({row["queries"] for row in rows})
    cells = {
        (row["batch"], row["context"], row["implementation"], row["queries"]): row["call_s"] for row in rows
    }
    lines = ["batch context " + "".join(f"   n={n:<2} ms" for n in counts) + "  implementation"]
    for batch, context, name in dict.fromkeys(key[:3] for key in cells):
        times = [cells.get((batch, context, name, n), math.nan) * 1e3 for n in counts]
        lines.append(f"{batch:5} {context:7} " + "".join(f"{ms:10.3f}" for ms in times) + f"  {name}")
    return "\n".join(lines)


def fastest(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Of each tile of rows the tuning with the least time over all places and query counts."""
    spent: dict[int, dict[str, float]] = {}
    for row in rows:
        if str(row["implementation"]).startswith("{"):
            by_tuning = spent.setdefault(row["tile"], {})
            by_tuning[row["implementation"]] = by_tuning.get(row["implementation"], 0.0) + row["call_s"]
    return {str(tile): json.loads(min(times, key=times.__getitem__)) for tile, times in sorted(spent.items())}


if __name__ == "__main__":
    main()
