"""Every kind of line that is emitted for an engine, from tables that no prediction enters; `__main__` has
them parsed.

``python -m tests.engine.lines ENGINE_FOLDER`` hands the lines to the engines' own parsers and writes
lines.json, the record that tests/engine/test_lines.py holds against what is emitted now.
"""

import json
import shlex
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from perfmodel.answers.advice.draft_lengths import LengthTable, Range
from perfmodel.answers.advice.engine_lines import Export, export
from perfmodel.answers.advice.servers import ServedTarget, servers
from perfmodel.answers.question import Query, resolve
from perfmodel.validate.engine.bench_commands import BenchRequest, commands
from tests.engine.questions import printed

RECORD = Path(__file__).with_name("lines.json")
CONSTANT = ((1, 64, 3),)
BY_BATCH = ((1, 8, 4), (9, 32, 2), (33, 64, 0))
HEAD = "heads/eagle"
HEADS = ("eagle", "dflash", "dspark", "domino", "peagle")
PLANNED = ("eagle", "eagle3", "dflash", "dspark", "draft_model", "mtp", "ngram")
KINDS: dict[str, tuple[dict[str, object], tuple[tuple[int, int, int], ...], dict[str, object]]] = {
    "ngram": ({"draft": "ngram"}, CONSTANT, {}),
    "draft model": ({"draft": "llama-3.2-1b"}, CONSTANT, {}),
    "draft model by batch": ({"draft": "llama-3.2-1b"}, BY_BATCH, {}),
    "parallel draft model": ({"draft": "parallel:llama-3.2-1b"}, CONSTANT, {}),
    "eagle": ({"draft": "eagle"}, CONSTANT, {"memory_fraction": 0.9}),
    "eagle by batch": ({"draft": "eagle"}, BY_BATCH, {}),
    "eagle with a window": ({"draft": "eagle", "draft_kv": "streamingllm:512"}, CONSTANT, {}),
    "eagle3": (
        {"draft": "eagle:features=3"},
        CONSTANT,
        {"kv_dtype": "fp8", "weights": "fp8", "on_load": True},
    ),
    "eagle3 by batch": ({"draft": "eagle:features=3"}, BY_BATCH, {"kv_dtype": "int8"}),
    "eagle3 with a window": ({"draft": "eagle:features=3", "draft_kv": "streamingllm:512"}, BY_BATCH, {}),
    "dflash": ({"draft": "dflash"}, CONSTANT, {}),
    "dflash by batch": ({"draft": "dflash"}, BY_BATCH, {}),
    "dspark": ({"draft": "dspark:rank=256,block=7"}, CONSTANT, {}),
    "dflash2": ({"draft": "dflash2"}, CONSTANT, {}),
    "domino": ({"draft": "domino:gru=64,emb=32"}, CONSTANT, {}),
    "pard": ({"draft": "pard:llama-3.2-1b"}, CONSTANT, {}),
    "peagle": ({"draft": "peagle"}, CONSTANT, {}),
    "mtp and n-gram": ({"draft": "mtp_ngram"}, CONSTANT, {}),
    "suffix": ({"draft": "suffix"}, CONSTANT, {}),
    "mtp": ({"draft": "mtp:modules=1"}, CONSTANT, {"kv_dtype": "int4"}),
    "mtp with a window": ({"draft": "mtp:modules=1", "draft_kv": "streamingllm:512"}, CONSTANT, {}),
    "mtp in a checkpoint": ({"draft": "mtp:modules=1"}, CONSTANT, {}),
    "two devices": ({"draft": "eagle", "tp": 2}, CONSTANT, {"tensor_parallel": 2}),
    "data-parallel attention": (
        {"draft": "mtp:modules=1"},
        CONSTANT,
        {"tensor_parallel": 4, "data_parallel": 4, "expert_parallel": 4},
    ),
    "experts over two devices": (
        {"draft": "eagle3", "tp": 2},
        CONSTANT,
        {"tensor_parallel": 2, "expert_parallel": 2},
    ),
    "prefill server": ({"draft": "mtp:modules=1"}, CONSTANT, {"pool": "prefill"}),
    "decode server": (
        {"draft": "mtp:modules=1"},
        CONSTANT,
        {"pool": "decode", "data_parallel": 2, "tensor_parallel": 2},
    ),
    "a named backend": ({"draft": "eagle3"}, CONSTANT, {"attention_backend": "triton"}),
}
CHECKED = {
    word: server.checked
    for word, server in servers().items()
    if server.checked and not (server.serves_files or server.alone)
}
"""Engine -> the version whose parser takes the lines."""


def room(context: int, sequences: int, gamma: int) -> int:
    """Tokens of a sequence, for lines that no device limits."""
    return context + 1024


def emitted() -> dict[str, Export]:
    """Kind -> what is handed over for it."""
    exports = {}
    for name, (changes, ranges, more) in KINDS.items():
        question = {
            "model": "llama-3.1-8b",
            "hardware": "h100",
            "batch": 1,
            "context": 4096,
            "alpha": 0.7,
            **changes,
        }
        draft = resolve(Query(**question)).draft  # type: ignore[arg-type]
        rows = tuple(Range(low, high, tokens, 1.5, tokens, 1.5) for low, high, tokens in ranges)
        table = LengthTable(rows, 4096, 4096, 1.5, 3, 1.4, (1.0,))
        served = ServedTarget("org/target", **{"vocab_size": 128_256, "longest": room, **more})  # type: ignore[arg-type]
        draft_id = draft.model.hf_id if "llama-3.2-1b" in str(changes["draft"]) else None
        path = HEAD if str(changes["draft"]).startswith(HEADS) or name == "mtp in a checkpoint" else draft_id
        exports[name] = export(table, draft, served, path)
    return exports


def planned() -> dict[str, dict[str, str | None]]:
    """The servers that a plan of runs starts with a draft whose acceptance is forced."""
    plans: dict[str, dict[str, str | None]] = {}
    for method in PLANNED:
        lines: dict[str, str | None] = {"sglang_adaptive": None}
        for engine, start in (("vllm", "vllm serve"), ("sglang", "python -m sglang")):
            rest = ((3,), (1, 8), (1024,), 64, (), "results", True)
            plan = commands(BenchRequest("org/target", engine, 1, method, HEAD, *rest))
            served = next(line for line in plan if "--speculative" in line)
            lines[f"{engine}_line"] = served[served.index(start) : served.index(" --port")]
        plans[f"plan of {method}"] = lines
    return plans


def asked() -> dict[str, dict[str, str | None]]:
    """The lines that `advise` prints for random questions."""
    nothing = {"vllm_line": None, "sglang_line": None, "sglang_adaptive": None}
    return {
        f"question {number}": nothing | {f"{case.engine}_line": case.line}
        for number, case in enumerate(printed())
    }


def as_record(accepted: dict[str, str]) -> dict[str, object]:
    """The lines with the version of the parser that took each."""
    lines = {
        name: {"vllm": e.vllm_line, "sglang": e.sglang_line, "sglang_adaptive": e.sglang_adaptive}
        for name, e in emitted().items()
    }
    return {"engines": CHECKED, "accepted_by": accepted, "lines": lines, "plans": planned()}


def main(engine: Path) -> int:
    """Parse all lines with the engines' own code; 1 where one is refused."""
    lines = {name: asdict(e) for name, e in emitted().items()} | planned() | asked()
    (engine / "lines.json").write_text(json.dumps(lines))
    versions = {}
    for name in CHECKED:
        script = Path(__file__).with_name(f"parse_{name}.py")
        done = subprocess.run(
            [engine / "bin" / "python", script, engine], capture_output=True, text=True, check=False
        )
        print(done.stdout, end="")
        if done.returncode:
            print(done.stderr[-3000:])
            return 1
        versions[name] = shlex.split(done.stdout.strip().splitlines()[-1])[-1]
    if versions != CHECKED:
        print(f"parsed by {versions}, where {CHECKED} is stated")
        return 1
    RECORD.write_text(json.dumps(as_record(versions), indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).absolute()))
