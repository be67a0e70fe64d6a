"""Measures the acceptance of drafted tokens by decoding real text, and writes a file for `whatif
--acceptance`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from perfmodel.errors import InputError, refuse
from perfmodel.kv import KVMethod, parse_kv
from perfmodel.specs import ModelSpec, load_model
from perfmodel.specs.acceptance.acceptance_file import AcceptanceFile
from perfmodel.speculation import MAX_GAMMA
from perfmodel.validate.decoder import (
    Model,
    ModelPair,
    Request,
    Sampling,
    end_tokens,
    joined,
    kv,
    last_tokens,
    make_decoder,
    tokenizer,
)
from perfmodel.validate.decoder.graphs import capture
from perfmodel.validate.harness.acceptance_errors import standard_error
from perfmodel.validate.harness.clock import free_memory
from perfmodel.validate.harness.progress import RowProgress
from perfmodel.validate.lm.data import held_out_prompts
from perfmodel.validate.records import commit
from perfmodel.validate.records.code_version import UNKNOWN

METHODS = ("full", "streamingllm:256", "snapkv:256", "quest:256", "topk:256")
"""Default KV methods of a self-draft. Other drafts read their whole cache by default."""


@dataclass(frozen=True)
class AcceptanceSetting:
    """The settings of a measurement of acceptance.

    - texts: the tokens of each document; None for text that the bundled model was not trained on.
    - name: the name of the texts in the `source` of the file.
    - count: largest number of documents per context.
    - batch: documents decoded together.
    - chat: whether documents end in a question; then their end is used instead of their beginning.
    - graphs: whether iterations are replayed as CUDA graphs.
    """

    pair: ModelPair
    draft_kv: tuple[str, ...]
    contexts: tuple[int, ...]
    gamma: int
    new_tokens: int
    sampling: Sampling
    count: int
    batch: int
    texts: list[list[int]] | None = None
    name: str = "held-out standard-library text"
    chat: bool = False
    seed: int = 0
    graphs: bool = False


def measure(
    setting: AcceptanceSetting, keep: Callable[[AcceptanceFile], object] = lambda table: None
) -> AcceptanceFile | None:
    """Decodes every document with every KV method at every context.

    - keep: called with the table after every row.

    Tensor-parallel ranks decode together. Rank 0 returns the table, and the others return None.

    In a row, histogram[j] is the number of iterations in which exactly j drafted tokens were accepted; the
    bonus token does not count. Raises InputError, before anything is decoded, if there are too few documents
    or positions.
    """
    spec = load_model(setting.pair.target)
    methods = draft_methods(setting)
    prompts = {context: prompts_at(setting, spec, context) for context in dict.fromkeys(setting.contexts)}
    work = [
        (context, spelled, method)
        for context in prompts
        for spelled, method in methods.items()
        # a draft whose budget is the context would read everything: that is `full`
        if method.budget is None or method.budget < context
    ]
    if not work:
        allowed = f"of a budget below the context, {max(setting.contexts)}"
        raise refuse("--draft-kv", None, allowed, ", ".join(methods))
    source = source_of(setting)
    entries = list[dict[str, Any]]()
    progress = RowProgress(len(work), 0)
    with joined(setting.pair.tp, setting.pair.place()) as shard:
        target, draft = setting.pair.models(shard)
        for context, spelled, method in work:
            if shard.rank == 0:
                progress.show(f"{spelled} at {context}")
            histograms = _observe(setting, target, draft, spelled, prompts[context])
            entries.append(entry(target, draft, setting.pair.kind, method, context, histograms))
            if shard.rank == 0:
                progress.step()
                keep(table(source, entries))
        progress.end()
        return table(source, entries) if shard.rank == 0 else None


def table(source: str, entries: list[dict[str, Any]]) -> AcceptanceFile:
    """An acceptance file.

    - entries: rows that `entry` made.
    """
    return AcceptanceFile.of_mapping({"schema_version": 1, "source": source, "rows": entries})


def entry(
    target: Model,
    draft: Model | None,
    kind: str,
    method: KVMethod,
    context: float,
    histograms: Sequence[Sequence[int]],
) -> dict[str, Any]:
    """One row of an acceptance file.

    - kind: the kind of draft.
    - histograms [documents, gamma + 1]: the number of iterations of each document with 0, 1, ... gamma
      accepted tokens.
    """
    total = [sum(counts) for counts in zip(*histograms, strict=True)]
    if not sum(total):
        raise InputError(
            f"--draft-kv {method.label()}: every document ended with its first token: nothing was drafted"
        )
    return {
        "target": target.spec.name,
        "draft": draft.spec.name if draft else kind.partition(":")[0],
        "draft_kv": method.name,
        "kv_budget_tokens": method.budget,
        "context_tokens": context,
        "histogram": total,
        "standard_error": standard_error(histograms),
    }


def draft_methods(setting: AcceptanceSetting) -> dict[str, KVMethod]:
    """Option text -> KV method of the draft. Raises InputError for methods that the decoder cannot run, and
    for two methods with the same name and budget, which a table cannot distinguish.
    """
    if setting.gamma > MAX_GAMMA:
        raise refuse("--gamma", None, f"at most {MAX_GAMMA}", setting.gamma)
    spellings = setting.draft_kv or (METHODS if setting.pair.kind == "self" else ("full",))
    methods = {spelled: parse_kv(spelled) for spelled in spellings}
    for method in methods.values():
        kv.view_class(method)
    named = ", ".join(methods)
    if setting.pair.kind.startswith("ngram") and spellings != ("full",):
        raise refuse("--draft-kv", None, "left out with --draft ngram, which reads no cache", named)
    distinct = {(method.name, method.budget) for method in methods.values()}
    if len(distinct) < len(methods):
        raise refuse("--draft-kv", None, "methods that differ in name or budget", named)
    return methods


def prompts_at(setting: AcceptanceSetting, spec: ModelSpec, context: int) -> list[list[int]]:
    """One prompt from each of the first `setting.count` documents that are long enough, or from the held-out
    text if there are no documents. The middle of the generated tokens is at `context`.
    """
    names = [setting.pair.target]
    if setting.pair.draft_model and not setting.pair.is_head(spec):
        names.append(setting.pair.draft_model)
    longest = min(load_model(name).max_position_embeddings for name in names) - setting.new_tokens
    if context > longest:
        raise refuse("--context", None, f"at most {longest} with {setting.new_tokens} new tokens", context)
    length = context - setting.new_tokens // 2
    if length < 1:
        raise refuse("--context", None, f"above half of the {setting.new_tokens} new tokens", context)
    if setting.texts is None:
        return held_out_prompts(setting.count, length, setting.seed)
    long = [text for text in setting.texts if len(text) >= length][: setting.count]
    if not long:
        allowed = f"documents of {length} tokens or more for --context {context}"
        raise refuse("--prompts", None, allowed, f"{max(map(len, setting.texts))} at most")
    if not setting.chat:
        return [text[:length] for text in long]
    reader = tokenizer(spec, setting.pair.folder)
    return [last_tokens(text, length, reader.bos if reader else None) for text in long]


def _observe(
    setting: AcceptanceSetting, target: Model, draft: Model | None, draft_kv: str, prompts: list[list[int]]
) -> list[list[int]]:
    """Histograms [documents, gamma + 1]. Sequences of the same text count as one document."""
    histograms: dict[tuple[int, ...], list[int]] = {}
    for start in range(0, len(prompts), setting.batch):
        batch = prompts[start : start + setting.batch]
        try:
            counts = _decode(setting, target, draft, draft_kv, batch, setting.seed + start)
        except torch.OutOfMemoryError:
            raise InputError(f"{target.device}: out of memory: lower --batch or --context") from None
        for prompt, histogram in zip(batch, counts, strict=True):
            before = histograms.get(tuple(prompt), [0] * len(histogram))
            histograms[tuple(prompt)] = [a + b for a, b in zip(before, histogram, strict=True)]
    return list(histograms.values())


def _decode(
    setting: AcceptanceSetting,
    target: Model,
    draft: Model | None,
    draft_kv: str,
    batch: list[list[int]],
    seed: int,
) -> list[list[int]]:
    """The histogram of each sequence of one batch. The memory of the batch before it is freed."""
    request = Request(
        batch=len(batch),
        context=len(batch[0]),
        new_tokens=setting.new_tokens,
        gamma=setting.gamma,
        draft=setting.pair.kind,
        draft_kv=draft_kv,
        sampling=setting.sampling,
        eos=end_tokens(setting.pair.folder),
        kv_dtype=setting.pair.kv_dtype,
    )
    free_memory(target.device)
    decoder = make_decoder(target, request, draft)
    state = decoder.start(batch, setting.new_tokens, seed)
    if setting.graphs:
        capture(decoder, state)
    decoder.finish(state)
    return state.histogram.tolist()


def code() -> str:
    """The version of the code, for the `source` of a file: the commit, or the version number of an installed
    package.
    """
    known = commit()
    dirty = " (dirty)" if known["dirty"] else ""
    if known["commit"] == UNKNOWN:
        return known["commit_from"]
    return f"commit {known['commit'][:8]}{dirty}"


def source_of(setting: AcceptanceSetting) -> str:
    """The `source` of the file: the settings with which a reader can repeat the measurement."""
    # the rows of the file have no options of a method
    with_options = "".join(f"{spelled}; " for spelled in setting.draft_kv if "," in spelled)
    decoding = f"{setting.new_tokens} new tokens, gamma {setting.gamma}, seed {setting.seed}"
    texts = f"{with_options}{setting.sampling}, {setting.name}"
    source = f"perfmodel validate acceptance, {code()}, {texts}, {decoding}, {setting.pair.spelled}"
    if setting.pair.tp > 1:
        source += f", {setting.pair.tp} devices"
    return source
