"""How often drafted tokens are accepted, observed by decoding real text: a table that `whatif --acceptance` reads."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from perfmodel.errors import InputError, refuse
from perfmodel.kv import KVMethod, parse_kv
from perfmodel.specs.acceptance_file import AcceptanceFile
from perfmodel.specs.model import ModelSpec, load_model
from perfmodel.speculation.acceptance import MAX_GAMMA
from perfmodel.validate.decoder import kv
from perfmodel.validate.decoder.factory import make_decoder
from perfmodel.validate.decoder.model import Model
from perfmodel.validate.decoder.pair import Pair
from perfmodel.validate.decoder.request import Request
from perfmodel.validate.decoder.sampling import Sampling
from perfmodel.validate.decoder.shard import RankShard
from perfmodel.validate.decoder.text import end_tokens, last_tokens, tokenizer
from perfmodel.validate.harness.clusters import standard_error
from perfmodel.validate.harness.progress import RowProgress
from perfmodel.validate.lm.data import held_out_prompts
from perfmodel.validate.records.code_version import UNKNOWN, commit

METHODS = ("full", "streamingllm:256", "snapkv:256", "quest:256", "topk:256")
"""Of a draft that is the target itself; another draft reads its whole cache where nothing is said."""


@dataclass(frozen=True)
class AcceptanceSetting:
    """What to observe.

    texts: tokens of each document, None for the held-out text of the bundled model; name: what they are, for the
    source. count: documents for each context, at most; batch: of them decoded together. chat: documents end in a
    question, so that their end is kept, not their beginning.
    """

    pair: Pair
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


def measure(
    setting: AcceptanceSetting, keep: Callable[[AcceptanceFile], object] = lambda table: None
) -> AcceptanceFile:
    """Decode every document with every method at every context; `keep` is given the table after every row.

    histogram[j] of a row counts iterations in which exactly j drafted tokens were accepted, the bonus token aside.
    Raises InputError, before anything is decoded, where documents or positions do not suffice.
    """
    spec, methods = load_model(setting.pair.target), _methods(setting)
    prompts = {context: _prompts(setting, spec, context) for context in dict.fromkeys(setting.contexts)}
    work = [
        (context, spelled, method)
        for context in prompts
        for spelled, method in methods.items()
        # a draft whose budget is the context would read everything: that is `full`
        if method.budget is None or method.budget < context
    ]
    if not work:
        longest = max(setting.contexts)
        raise refuse("--draft-kv", None, f"of a budget below the context, {longest}", ", ".join(methods))
    target, draft = setting.pair.models(RankShard())
    head, rows = {"schema_version": 1, "source": _source(setting)}, list[dict[str, Any]]()
    progress = RowProgress(len(work), 0)
    for context, spelled, method in work:
        progress.show(f"{spelled} at {context}")
        rows.append({
            "target": target.spec.name,
            "draft": draft.spec.name if draft else setting.pair.kind.partition(":")[0],
            "draft_kv": method.name,
            "kv_budget_tokens": method.budget,
            "context_tokens": context,
            **_observe(setting, target, draft, spelled, prompts[context]),
        })  # fmt: skip
        progress.step()
        keep(AcceptanceFile.model_validate({**head, "rows": rows}))
    progress.end()
    return AcceptanceFile.model_validate({**head, "rows": rows})


def _methods(setting: AcceptanceSetting) -> dict[str, KVMethod]:
    """The draft's KV methods by spelling. Raises InputError for what cannot be run, or told apart in a table."""
    for flag, value in (("--gamma", setting.gamma), ("--documents", setting.count), ("--batch", setting.batch)):
        if value < 1:
            raise refuse(flag, None, "1 or more", value)
    if setting.gamma > MAX_GAMMA:
        raise refuse("--gamma", None, f"at most {MAX_GAMMA}", setting.gamma)
    spellings = setting.draft_kv or (METHODS if setting.pair.kind == "self" else ("full",))
    methods = {spelled: parse_kv(spelled) for spelled in spellings}
    for method in methods.values():
        kv.view_class(method)
    if setting.pair.kind.startswith("ngram") and spellings != ("full",):
        raise refuse("--draft-kv", None, "left out with --draft ngram, which reads no cache", ", ".join(methods))
    if len({(method.name, method.budget) for method in methods.values()}) < len(methods):
        raise refuse("--draft-kv", None, "methods that differ in name or budget", ", ".join(methods))
    return methods


def _prompts(setting: AcceptanceSetting, spec: ModelSpec, context: int) -> list[list[int]]:
    """One of each document that is long enough; the middle of the generation is at `context`."""
    names = [setting.pair.target, *filter(None, [setting.pair.draft_model])]
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
        most = max(map(len, setting.texts))
        allowed = f"documents of {length} tokens or more for --context {context}"
        raise refuse("--prompts", None, allowed, f"{most} at most")
    if not setting.chat:
        return [text[:length] for text in long]
    reader = tokenizer(spec, setting.pair.folder)
    return [last_tokens(text, length, reader.bos if reader else None) for text in long]


def _observe(
    setting: AcceptanceSetting, target: Model, draft: Model | None, draft_kv: str, prompts: list[list[int]]
) -> dict[str, Any]:
    """The histogram over all documents, and the standard error; sequences of the same text count as one document."""
    found: dict[tuple[int, ...], list[int]] = {}
    for start in range(0, len(prompts), setting.batch):
        batch = prompts[start : start + setting.batch]
        request = Request(
            batch=len(batch),
            context=len(batch[0]),
            new_tokens=setting.new_tokens,
            gamma=setting.gamma,
            draft=setting.pair.kind,
            draft_kv=draft_kv,
            sampling=setting.sampling,
            eos=end_tokens(setting.pair.folder),
        )
        try:
            generation = make_decoder(target, request, draft).generate(batch, setting.new_tokens, setting.seed + start)
        except torch.OutOfMemoryError:
            raise InputError(f"{target.device}: out of memory: lower --batch or --context") from None
        for prompt, histogram in zip(batch, generation.histograms, strict=True):
            before = found.get(tuple(prompt), [0] * len(histogram))
            found[tuple(prompt)] = [a + b for a, b in zip(before, histogram, strict=True)]
    total = [sum(counts) for counts in zip(*found.values(), strict=True)]
    if not sum(total):
        raise InputError(f"--draft-kv {draft_kv}: every document ended with its first token: nothing was drafted")
    return {"histogram": total, "standard_error": standard_error(list(found.values()))}


def _source(setting: AcceptanceSetting) -> str:
    """What a reader needs to do it again."""
    known = commit()
    code = f"commit {known['commit'][:8]}{' (dirty)' if known['dirty'] else ''}"
    code = known["commit_from"] if known["commit"] == UNKNOWN else code  # an installed package has its version
    with_options = "".join(f"{spelled}; " for spelled in setting.draft_kv if "," in spelled)  # rows lack options
    return (
        f"perfmodel validate acceptance, {code}, {with_options}{setting.sampling}, {setting.name}, "
        f"{setting.new_tokens} new tokens, gamma {setting.gamma}, seed {setting.seed}, {setting.pair.precision()}"
    )
