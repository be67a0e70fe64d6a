"""SGLang's flags for a draft, and the file of its adaptive draft lengths."""

from typing import Any

from perfmodel.answers.advice.draft_lengths import LengthTable
from perfmodel.answers.question import served_draft
from perfmodel.drafts.base import Draft
from perfmodel.kv.streamingllm import StreamingLLM
from perfmodel.specs import serving_engines

ADAPTIVE_FILE = "adaptive.json"
"""Name of the file that the user writes, as it stands in SGLang's line."""


def sglang_flags(
    table: LengthTable,
    draft: Draft,
    tensor_parallel: int,
    foreign: bool,
    path: str | None,
    notes: list[str],
) -> tuple[list[str] | None, dict[str, Any] | None]:
    """The words of SGLang's line that start the draft, and the contents of the file that the line names. None
    without such a draft, with the reason in `notes`.

    tensor_parallel: the target's degree. foreign: whether the draft model has another vocabulary.
    """
    known = served_draft(serving_engines()["sglang"], draft)
    algorithm = None if known is None else known.method
    by_batch = algorithm in ("EAGLE", "EAGLE3") and len(table.ranges) > 1
    tokens = table.max_tokens if by_batch else table.best_constant
    if tokens == 0:
        notes.append(
            "SGLang takes one draft length, and the best single one is 0: leave speculation off there"
        )
        return None, None
    windowed = _window(draft, algorithm, notes)
    if algorithm is None or windowed is None:
        what = (
            "a draft with a sparse view of the cache"
            if algorithm
            else f"a {draft.name.partition(':')[0]} draft"
        )
        notes.append(f"SGLang has no flag for {what}")
        return None, None
    owns = algorithm != "NGRAM" and (algorithm != "NEXTN" or path is not None)
    if (owns and path is None) or (algorithm == "STANDALONE" and foreign):
        return None, None
    if owns and draft.tensor_parallel != tensor_parallel:
        notes.append(f"SGLang shards a draft as its target: not as asked, on {draft.tensor_parallel}")
    flags: dict[str, Any] = {"algorithm": algorithm} | ({"draft-model-path": path} if owns else {})
    if algorithm not in ("NGRAM", "DFLASH", "DSPARK"):
        flags |= {"num-steps": tokens, "eagle-topk": 1}
    flags["num-draft-tokens"] = tokens + 1
    if algorithm == "NGRAM":  # a chain is a tree of breadth 1
        flags["ngram-max-bfs-breadth"] = 1
    elif algorithm == "DSPARK":  # the block has all verified tokens but the first
        flags["dspark-block-size"] = tokens
    words = [
        word for name, value in (flags | windowed).items() for word in (f"--speculative-{name}", str(value))
    ]
    if not by_batch:
        if len(table.ranges) > 1:
            notes.append(f"SGLang takes one draft length: the best single one, {tokens}, is given")
        return words, None
    words += ["--speculative-adaptive", "--speculative-adaptive-config", ADAPTIVE_FILE]
    notes.append(
        f"SGLang reads its lengths by batch size from {ADAPTIVE_FILE}: write it before you start the server"
    )
    return words, {str(r.low): {"candidate_steps": [r.tokens]} for r in table.ranges}


def _window(draft: Draft, algorithm: str | None, notes: list[str]) -> dict[str, int] | None:
    """Flags for the part of its cache that a draft reads; empty for the whole cache, None where SGLang does
    not serve it.
    """
    if draft.kv.name == "full":
        return {}
    if not isinstance(draft.kv, StreamingLLM) or algorithm not in ("EAGLE", "EAGLE3", "NEXTN"):
        return None
    if algorithm == "EAGLE3":
        notes.append("SGLang's EAGLE-3 heads keep no sink: the window alone is what was priced")
        return {"draft-window-size": draft.kv.budget}
    return {"draft-window-size": draft.kv.budget - draft.kv.sinks, "draft-sink-size": draft.kv.sinks}
