"""The decoder's Triton kernels compiled without a device: registers, spills and shared memory on sm_80 and
sm_90.

    python benchmarks/kernels.py             # prints the table
    python benchmarks/kernels.py --write     # and puts it into docs/kernels.md, beside other versions
    python benchmarks/kernels.py --tunings   # rewrites benchmarks/tunings.json: what a sweep tries

Shapes are those of Llama-3.1-8B in bf16: 32 query and 8 KV heads of 128, hidden size 4096.
"""

import itertools
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from perfmodel.validate.decoder.kernels.best import SEARCHED, WARPS as SEARCH_WARPS, _best
from perfmodel.validate.decoder.kernels.combine import MERGED, _combine
from perfmodel.validate.decoder.kernels.copy_tokens import _copy_tokens
from perfmodel.validate.decoder.kernels.expert_rows import BLOCK_K, BLOCK_M, _expert_rows
from perfmodel.validate.decoder.kernels.norm import _add_norm
from perfmodel.validate.decoder.kernels.page_scores import _page_scores
from perfmodel.validate.decoder.kernels.rotate import _rotate
from perfmodel.validate.decoder.kernels.silu import BLOCK, _silu_mul
from perfmodel.validate.decoder.kernels.split_kv import _split
from perfmodel.validate.decoder.kernels.token_scores import _token_scores
from perfmodel.validate.decoder.product_launch import product_launch
from perfmodel.validate.decoder.triton_attention import ROW_TILE, launch
from perfmodel.validate.decoder.triton_product import SUMMED, _add_parts, _few_rows
from perfmodel.validate.decoder.triton_selection import TILE
from perfmodel.validate.decoder.tuning import Tuning, tile_of

PAGE = Path(__file__).parents[1] / "docs" / "kernels.md"
TUNINGS = Path(__file__).with_name("tunings.json")
SWEPT = 8
SHARED_BYTES = {80: 163 * 1024, 90: 227 * 1024}
"""Most that one block may use; CUDA C++ Programming Guide, table of technical specifications."""
TYPES = {"lengths_at": "*i64", "first_at": "*i64", "slots_at": "*i64", "sees_at": "*u8", "lse_at": "*fp32"}
TYPES |= {
    "index_at": "*i32",
    "places_at": "*i64",
    "expert_at": "*i64",
    "score_at": "*fp32",
    "vote_at": "*fp32",
    "x_scale_at": "*fp32",
    "scale_at": "*fp32",
    "parts_at": "*fp32",
}
FLOATS = ("scale", "eps")
PARTIAL = {"_split": {"out_at": "*fp32"}, "_combine": {"out_at": "*fp32"}}
PARTIAL["_few_rows"] = {"x_at": "*fp8e4nv", "codes_at": "*fp8e4nv", "out_at": "*fp32"}


@dataclass(frozen=True)
class Case:
    """One kernel with its compile-time sizes and launch options."""

    kernel: Any
    what: str
    sizes: dict[str, Any]
    warps: int
    stages: int = 3
    least: int = 80
    """First architecture that runs it. It is compiled for this one instead of an earlier one."""


@dataclass(frozen=True)
class Compiled:
    """What the assembler made of it."""

    registers: int
    spill_bytes: int
    shared_bytes: int
    ptx: str


def cases() -> Iterator[Case]:
    """Every kernel, attention for decoding, verification and the most rows, plain, masked and windowed."""
    heads: dict[str, Any] = {"HEADS": 8, "D": 128}
    tuning = Tuning()
    for what, queries, rows, changes in (
        ("1 query token", 1, 4, {}),
        ("5 query tokens", 5, 20, {}),
        ("9 query tokens", 9, 36, {}),
        ("tree of 16 nodes", 16, 64, {"STATED": True}),
        ("64 query tokens", 64, 256, {}),
        ("tree of 48 nodes, no groups", 48, 48, {"STATED": True}),
        ("5 query tokens, sliding window", 5, 20, {"WINDOW": True}),
        ("1 query token, pages by index", 1, 4, {"PAGE": 16}),
        ("8 query tokens, heads of 256", 8, 64, {"D": 256}),
    ):
        d = changes.get("D", 128)
        tile, warps, stages = launch(d, tuning)
        sizes = {
            "QUERIES": queries,
            "ROWS": rows,
            "PAD": tile_of(rows, ROW_TILE * 128 // d),
            "TILE": tile,
            "WINDOW": False,
            "STATED": False,
            "PAGE": 0,
        }
        yield Case(_split, what, heads | sizes | changes, warps, stages)
    chosen = heads | {"ROWS": 4, "PAD": 16, "TILE": TILE}
    yield Case(_page_scores, "pages of 16, 1 query token", chosen | {"PAGE": 16}, 4)
    yield Case(_token_scores, "1 query token", chosen, 4)
    searched = {"HEADS": 8, "ROWS": 4, "PAD": 16, "COUNT": 128, "TILE": SEARCHED}
    yield Case(_best, "128 pages", searched | {"VOTES": False}, SEARCH_WARPS)
    yield Case(_best, "128 tokens", searched | {"VOTES": True}, SEARCH_WARPS)
    yield Case(_combine, "5 query tokens", heads | {"QUERIES": 5, "ROWS": 20, "MERGED": MERGED}, 2)
    yield Case(_add_norm, "hidden 4096", {"HIDDEN": 4096, "BLOCK": 4096}, 8)
    yield Case(_silu_mul, "any width", {"INNER": 14336, "BLOCK": BLOCK}, 4)
    rotated = {"HEADS": 32, "KV_HEADS": 8, "D": 128, "HALF": 64, "BLOCK": 128, "ROUNDED": False}
    yield Case(_rotate, "into cache and scratch", rotated | {"NORM": False, "CACHED": True}, 1)
    yield Case(_rotate, "with head norms", rotated | {"NORM": True, "CACHED": True}, 1)
    yield Case(_copy_tokens, "a commit", {"BATCH": 24, "HEADS": 8, "D": 128, "BLOCK": 128}, 1)
    experts = {"K": 2048, "M": 1536, "BLOCK_M": BLOCK_M, "BLOCK_K": BLOCK_K}
    yield Case(_expert_rows, "experts of Qwen3-30B-A3B", experts, 4)
    for rows in (5, 24, 64, 100):
        product = product_launch(rows, 4096, 4096)
        sizes = product.sizes | {"N": 4096, "K": 4096, "BIAS": False}
        what = f"{rows} rows in fp8 (sm_89 instead of sm_80)"
        yield Case(_few_rows, what, sizes, product.warps, product.stages, 89)
    yield Case(_add_parts, "4 parts", {"PARTS": product.parts, "BLOCK": SUMMED}, 4)


def compiled(case: Case, capability: int) -> Compiled:
    """Compile for an architecture; pointers and strides are multiples of 16, as those of the decoder's
    tensors.
    """
    names = case.kernel.arg_names
    partial = PARTIAL.get(case.kernel.__name__, {})
    pointers = {name: partial.get(name, TYPES.get(name, "*bf16")) for name in names if name.endswith("_at")}
    signature = {
        name: "constexpr" if name in case.sizes else pointers.get(name, "fp32" if name in FLOATS else "i32")
        for name in names
    }
    strides = ("_b", "_h", "_s")
    aligned = [
        i for i, name in enumerate(names) if name in pointers or (name.endswith(strides) and name != "sees_b")
    ]
    source = ASTSource(case.kernel, signature, case.sizes, {(i,): [["tt.divisibility", 16]] for i in aligned})
    options = {"num_warps": case.warps, "num_stages": case.stages, "enable_fp_fusion": True}
    made = triton.compile(source, target=GPUTarget("cuda", max(capability, case.least), 32), options=options)
    told = _resources(made.asm["cubin"])
    return Compiled(told["REG"], told["STACK"] + told["LOCAL"], made.metadata.shared, made.asm["ptx"])


def _resources(cubin: bytes) -> dict[str, int]:
    """Registers, and bytes of stack and local memory, of each thread; nothing here needs a stack but what
    spills.
    """
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [triton.knobs.nvidia.cuobjdump.path, "--dump-resource-usage", file.name]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {name: int(value) for name, value in re.findall(r"(REG|STACK|LOCAL):(\d+)", told)}


def table() -> str:
    """What this version of Triton makes of every kernel."""
    rows = []
    for case in cases():
        found = [compiled(case, capability) for capability in SHARED_BYTES]
        cells = [f"{c.registers} | {c.spill_bytes} | {c.shared_bytes / 1024:.1f}" for c in found]
        stages = f", {case.stages} stages" if case.kernel in (_split, _few_rows) else ""
        name = case.kernel.__name__.strip("_")
        rows.append(f"| `{name}` | {case.what} | {case.warps} warps{stages} | {' | '.join(cells)} |")
    head = " | ".join(f"sm_{c} registers | spilled bytes | shared KiB" for c in SHARED_BYTES)
    columns = [
        f"| kernel | for | launched with | {head} |",
        "|:--|:--|:--|" + "--:|" * (3 * len(SHARED_BYTES)),
    ]
    return "\n".join([f"## Triton {triton.__version__}", "", *columns, *rows, ""])


def occupancy(found: Compiled, warps: int, capability: int) -> int:
    """Programs that a multiprocessor runs at a time; registers are given to a warp by 256, and each program
    takes 1 KiB of shared memory more (CUDA C++ Programming Guide, table of technical specifications).
    """
    registers = 65536 // (32 * warps * (-(-found.registers // 8) * 8))
    return min(registers, (SHARED_BYTES[capability] + 1024) // (found.shared_bytes + 1024), 64 // warps)


def candidates(rows: int, capability: int = 90) -> list[dict[str, int]]:
    """The tunings for so many rows that are worth a sweep: `SWEPT` with the most bytes of the cache under way
    on a multiprocessor, of those that run two programs there or more without spilling.
    """
    ranked = []
    for block, warps, stages in itertools.product((32, 64, 128), (4, 8), (2, 3, 4)):
        sizes = {"QUERIES": rows // 4, "ROWS": rows, "PAD": rows, "TILE": block}
        sizes |= {"WINDOW": False, "STATED": False, "PAGE": 0}
        found = compiled(Case(_split, "", {"HEADS": 8, "D": 128} | sizes, warps, stages), capability)
        programs = 0 if found.spill_bytes else occupancy(found, warps, capability)
        given = {"block": block, "warps": warps, "stages": stages, "programs_per_processor": programs}
        if programs > 1:
            ranked.append((programs * (stages - 1) * block, programs, given))
    return [given for *_, given in sorted(ranked, key=lambda found: found[:2], reverse=True)[:SWEPT]]


def main() -> None:
    """Print the table; with --write, put it into the page, in the place of what this version had there."""
    if "--tunings" in sys.argv:
        found = {rows: candidates(rows) for rows in (16, 32, 64)}
        lines = [
            f'  "{rows}": [\n    ' + ",\n    ".join(map(json.dumps, each)) + "\n  ]"
            for rows, each in found.items()
        ]
        return TUNINGS.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8") and None
    made = table()
    print(made, end="")
    if "--write" in sys.argv:
        head, *sections = re.split("^(?=## Triton )", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
        title = made.partition("\n")[0] + "\n"
        others = [section.rstrip() + "\n" for section in sections if not section.startswith(title)]
        PAGE.write_text(head + "\n".join([made, *others]), encoding="utf-8")


if __name__ == "__main__":
    main()
