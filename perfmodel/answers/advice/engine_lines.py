"""Writes the command lines that start a server in a predicted configuration, for every engine of
`advice.servers`.

There is no line for an engine that does not have the draft. A note then gives the reason. For every engine
except TensorRT-LLM, the engine's own parser has accepted lines of this form (tests/engine/lines.json, made by
``make test-engine``).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from perfmodel.answers.advice.draft_lengths import LengthTable
from perfmodel.answers.advice.served_target import draft_source, served_target
from perfmodel.answers.advice.servers import ServedTarget, Setup, Started, servers
from perfmodel.answers.question import Query, resolve
from perfmodel.drafts.base import Draft
from perfmodel.specs import served_id
from perfmodel.speculation import speedups


@dataclass(frozen=True, slots=True)
class Export:
    """The command lines of the engines.

    - lines: engine -> its command line.
    - remarks: engine -> a remark on its line, for example that its parallel degrees have another meaning.
    - vllm, sglang: only the part for the draft, as JSON for vLLM and as flags for SGLang. Each is None
      without a line or without a draft.
    - sglang_adaptive: the contents of a file that SGLang's line names, if the draft length depends on the
      batch size.
    """

    vllm: dict[str, Any] | None
    vllm_line: str | None
    sglang: list[str] | None
    sglang_line: str | None
    notes: tuple[str, ...]
    sglang_adaptive: dict[str, Any] | None = None
    llamacpp_line: str | None = None
    lines: dict[str, str] = field(default_factory=dict)
    remarks: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        started: Mapping[str, Started],
        notes: Sequence[str],
        remarks: Mapping[str, str] = MappingProxyType({}),
    ) -> "Export":
        """Makes an export with the lines of these engines.

        - started: engine -> its line and flags.
        """
        lines = {word: each.line for word, each in started.items()}
        drafts = {word: each.draft for word, each in started.items()}
        sglang = started.get("sglang")
        return cls(
            drafts.get("vllm"),
            lines.get("vllm"),
            drafts.get("sglang"),
            lines.get("sglang"),
            tuple(notes),
            sglang.adaptive if sglang else None,
            lines.get("llamacpp"),
            lines,
            dict(remarks),
        )


def export(
    table: LengthTable,
    draft: Draft,
    served: ServedTarget,
    draft_path: str | None = None,
    withheld: Mapping[str, str] = MappingProxyType({}),
    undecided: bool = False,
) -> Export:
    """Writes the command lines of the engines for one table of draft lengths.

    - draft_path: path or repository of the head or draft model.
    - withheld: engine for which no line with a draft is written -> the reason.
    - undecided: whether the table has no draft because no acceptance is known.
    """
    setup = Setup(table, draft, served, draft_path)
    notes: list[str] = []
    if not setup.drafts and served.file is None and undecided:
        notes.append("start without a draft; measure the acceptance of a draft, then decide")
    elif not setup.drafts and served.file is None and table.compares:
        notes.append("no draft with a known acceptance is faster in any range: leave speculation off")
    started: dict[str, Started] = {}
    for word, server in servers().items():
        if not server.offers(served):
            continue
        if served.pool is not None and not server.router:
            notes.append(f"no line for {server.title}: none is known for separate pools")
            continue
        if setup.drafts and word in withheld:
            notes.append(f"no line for {server.title}: {withheld[word]}")
            continue
        line = server.start(setup, notes)
        if line is not None:
            started[word] = line
    notes += _parsed(started)
    remarks = {word: _remark(word, served) for word in started}
    notes = list(dict.fromkeys(notes))
    return Export.of(started, notes, {word: text for word, text in remarks.items() if text})


def _remark(word: str, served: ServedTarget) -> str:
    """The facts that a reader of the line must know, such as another meaning of the parallel degrees or
    another weight format.
    """
    server = servers()[word]
    facts = [
        server.degrees(served.tensor_parallel, served.data_parallel, served.version_of(word)),
        server.other_nodes(served),
        server.copies(served),
        server.quantising(served),
        served.stands_for,
    ]
    if served.checkpoint not in ("", served.weights):
        facts.append(f"{served.model_id} is {served.checkpoint}; the prediction is for {served.weights}")
    return "; ".join(filter(None, facts))


def _parsed(words: Iterable[str]) -> Iterator[str]:
    """Which engines' parsers have accepted lines of this form, and which have not been tried. If one engine
    only has lines for questions about itself, the other engines are not named.
    """
    accepted = []
    untried = []
    named = list(words)
    for word in [word for word in named if servers()[word].alone] or named:
        server = servers()[word]
        if not server.checked:
            untried.append(server.title)
        else:
            accepted.append(server.checked if server.serves_files else f"{server.title} {server.checked}")
    if accepted:
        yield f"the parsers of {' and '.join(accepted)} accept lines of this form"
    if untried:
        yield f"lines of this form were not checked with the parser of {' and '.join(untried)}"


def line_of_file(query: Query, tokens: int) -> tuple[str, str] | None:
    """The command line for one question and a draft of `tokens` tokens, and its remark, if the engine loads
    its model from a file (llama.cpp). The result is None for other engines. The remark is often empty.
    """
    scenario = resolve(query)
    served = served_target(query, served_id(query.model), scenario)
    if served.file is None:
        return None
    by_length = speedups(scenario, float(query.batch), float(query.context), np.arange(tokens + 1))
    table = LengthTable.at(query.batch, query.context, tokens, tuple(by_length.tolist()))
    path = draft_source(query, scenario, query.draft or scenario.draft.name)
    lines = export(table, scenario.draft, served, path)
    engine = served.engine or ""
    return (lines.lines[engine], lines.remarks.get(engine, "")) if engine in lines.lines else None


def no_line(why: str) -> Export:
    """An export without lines, with a note that gives the reason."""
    return Export.of({}, (f"{why}, so no command line is printed",))


def five_item_rows(tables: Sequence[LengthTable]) -> list[list[int]]:
    """Rows ``[bs_lo, bs_hi, ctx_lo, ctx_hi, K]``, sorted by context and then by batch. K is the draft length
    in this range of batch sizes and contexts.
    """
    return [[r.low, r.high, t.context_low, t.context_high, r.tokens] for t in tables for r in t.ranges]
