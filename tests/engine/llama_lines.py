"""Every kind of ``llama-server`` line, from tables that no prediction enters; `__main__` has them parsed.

``python -m tests.engine.llama_lines LLAMA_SERVER`` hands the lines to llama.cpp's own parser and writes
llama_lines.json, the record that test_lines.py holds against what is emitted now.
"""

import json
import shlex
import subprocess
import sys
from pathlib import Path

from perfmodel.answers.advice.draft_lengths import LengthTable, Range
from perfmodel.answers.advice.engine_lines import Export, export
from perfmodel.answers.advice.served_target import served_target
from perfmodel.answers.advice.servers import servers
from perfmodel.answers.question import Query, draft_word, resolve

RECORD = Path(__file__).with_name("llama_lines.json")
CONSTANT = ((1, 4, 3),)
BY_BATCH = ((1, 2, 4), (3, 8, 2))
OFF = ((1, 8, 0),)
KINDS: dict[str, tuple[dict[str, object], tuple[tuple[int, int, int], ...], int]] = {
    "ngram": ({"draft": "ngram"}, CONSTANT, 3),
    "draft model": ({"draft": "llama-3.2-1b"}, BY_BATCH, 2),
    "eagle3": ({"draft": "eagle3", "kv_dtype": "q8_0"}, CONSTANT, 3),
    "mtp": ({"draft": "mtp:modules=1", "kv_dtype": "fp8"}, CONSTANT, 3),
    "dflash": ({"draft": "dflash"}, CONSTANT, 3),
    "none": ({"draft": "ngram", "kv_dtype": "q4_0"}, OFF, 0),
    "self": ({"draft": "self", "kv_dtype": "fp32"}, CONSTANT, 3),
    "repository": ({"draft": "mtp", "model": "unsloth/Qwen3.6-27B-MTP-GGUF:UD-Q4_K_XL"}, CONSTANT, 3),
    "on the host": ({"draft": "ngram", "gpu_layers": 20, "host_bandwidth": 50}, CONSTANT, 3),
    "an mtp head in a file of its own": ({"draft": "mtp:modules=1"}, CONSTANT, 3),
    "two devices": ({"draft": "mtp:modules=1", "tp": 2}, CONSTANT, 3),
}
APART = ("an mtp head in a file of its own",)


def emitted() -> dict[str, Export]:
    """Kind -> what is handed over for it."""
    exports = {}
    for name, (changes, ranges, best) in KINDS.items():
        model = {"model": "llama-3.1-8b", "hardware": "rtx-3090", "engine": "llamacpp", "weights": "q4_k_m"}
        query = Query(**{**model, "batch": 1, "context": 4096, "alpha": 0.7, **changes})  # type: ignore[arg-type]
        scenario = resolve(query)
        rows = tuple(Range(low, high, tokens, 1.5, tokens, 1.5) for low, high, tokens in ranges)
        table = LengthTable(rows, 4096, 4096, 1.5, best, 1.4, (1.0,))
        served = served_target(query, "org/Target", scenario)
        draft_path = None if draft_word(scenario.draft) == "mtp" and name not in APART else "org/draft"
        exports[name] = export(table, scenario.draft, served, draft_path)
    return exports


def of_server(exported: Export) -> str:
    """The line of the server, without the commands that convert a head."""
    return (exported.llamacpp_line or "").rpartition("\n")[2]


def as_record() -> dict[str, object]:
    """The lines with the version of the parser that took each, and those that no parser has seen yet."""
    lines = {name: of_server(e) for name, e in emitted().items()}
    return {"accepted_by": servers()["llamacpp"].checked, "not_parsed": list(APART), "lines": lines}


def main(server: Path) -> int:
    """Parse all lines with the engine's own code, which ends at ``--version``; 1 where one is refused."""
    for name, e in emitted().items():
        words = [server, *shlex.split(of_server(e))[1:], "--version"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        print(f"{name}: {'refused' if done.returncode else 'taken'}")
        if done.returncode:
            print(done.stderr[-2000:])
            return 1
    RECORD.write_text(json.dumps(as_record(), indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).absolute()))
