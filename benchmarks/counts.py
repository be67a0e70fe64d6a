"""What one what-if takes, in counts that no machine changes: ``python benchmarks/counts.py`` prints them as
JSON.
"""

import json
import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any

from perfmodel.answers.load.traffic import traffic
from perfmodel.answers.point.whatif import whatif
from perfmodel.answers.question import Query

QUERY = Query("llama-3.1-8b", "a100-sxm-80gb", 64, 32000, 2, tp=8, draft_kv="streamingllm:512", alpha=0.81)
WARM_UP = 50
"""What-ifs after which all passes of a question are compiled."""

SERVER: dict[str, Any] = {
    "model": "gpt-oss-120b",
    "hardware": "h200",
    "input_len": "8k",
    "output_len": "1k",
    "draft": "eagle:features=3",
    "alpha": 0.6,
    "request_rate": 1.0,
    "gamma": "1,3",
}


def counted(work: Callable[[], object]) -> dict[str, int]:
    """Calls of Python functions, files of this package that they are in, and forward passes that are
    counted.
    """
    calls: Counter[tuple[str, str]] = Counter()

    def hook(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            calls[frame.f_code.co_filename.replace("\\", "/"), frame.f_code.co_name] += 1

    sys.setprofile(hook)
    try:
        work()
    finally:
        sys.setprofile(None)
    own = {file for file, _ in calls if "/perfmodel/" in file}
    passes = sum(
        n for (file, name), n in calls.items() if file.endswith("costs/passes.py") and name == "forward"
    )
    return {"calls": calls.total(), "files": len(own), "forward passes": passes}


def counts() -> dict[str, dict[str, int]]:
    """Of the first what-if of a process (names read from files, modules imported as needed), and of one whose
    passes are compiled.

    Also of a question about traffic: two lengths at one rate, the second time.
    """
    first = counted(lambda: whatif(QUERY))
    for number in range(WARM_UP):
        whatif(QUERY, context=20_000 + number)
    found = {"first": first, "warm": counted(lambda: whatif(QUERY, context=31_000))}
    traffic(**SERVER)
    return found | {"traffic": counted(lambda: traffic(**SERVER))}


if __name__ == "__main__":
    print(json.dumps(counts()))
