"""Makes the HTML file of the explorer. The file is self-contained: it has the code of the page and the
predicted times of all surfaces.

Acceptance changes a speedup only through the tokens per iteration. The page therefore contains times in
seconds. For any acceptance, the page computes the speedup and the best draft length from these times
(``explorer/surface.js``). The times are the predictions at the points of the grid, as 32-bit floats. Nothing
is interpolated.
"""

import base64
import itertools
import json
import shlex
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perfmodel.answers.answer import plain
from perfmodel.answers.declaration import asks
from perfmodel.answers.point.calibrated import Calibrated
from perfmodel.answers.point.published_runs import measured_speedups
from perfmodel.answers.point.verdict import SENTENCES
from perfmodel.answers.question import Query, runs_in
from perfmodel.answers.question.engine_support import RunsIn
from perfmodel.costs.pass_time import LIMITERS, PassTime
from perfmodel.errors import InputError, refuse
from perfmodel.explorer.exploration import Exploration
from perfmodel.operations import Floats
from perfmodel.specs import COVERAGE, Z, engine_of, find_acceptance
from perfmodel.specs.engines.source_errors import LEAST_EXTRA
from perfmodel.speculation import (
    Scenario,
    capacity,
    inflection_context,
    is_measured,
    is_transferred,
    log_error,
    log_middle,
)

MAX_POINTS = 4096
"""Largest number of points of one surface."""
MAX_VALUES = 5_000_000
"""Largest number of points and draft lengths of all surfaces together."""
PARTS = ("page.css", "surface.js", "map.js", "page.js")
"""Files whose text replaces their names in ``template.html``."""
SUBJECT = ("model", "hardware", "tp", "draft_kv")
"""Arguments of a question that distinguish surfaces."""
POINT = ("batch", "context", "gamma", "alpha")
"""Arguments of a question that the page sets."""
Array = NDArray[np.float64]


class Pool:
    """Stores arrays over ``[batch, context, gamma]`` as 32-bit floats in base64. Equal arrays are stored
    once.

    An axis along which no value changes is stored with length 1. For example, the time to load weights
    does not depend on the context.
    """

    def __init__(self) -> None:
        self.arrays: list[dict[str, Any]] = []
        self._known: dict[tuple[tuple[int, ...], bytes], int] = {}

    def add(self, values: ArrayLike) -> int:
        """Stores an array, and returns its index in the page."""
        kept = np.atleast_3d(np.asarray(values)).astype("<f4")
        for axis in range(kept.ndim):
            first = kept.take([0], axis)
            kept = first if np.all(kept == first) else kept
        raw = kept.tobytes()
        number = self._known.setdefault((kept.shape, raw), len(self.arrays))
        if number == len(self.arrays):
            self.arrays.append({"shape": list(kept.shape), "f32": base64.b64encode(raw).decode()})
        return number


def payload(
    grid: Exploration, *more: Exploration, progress: Callable[[int], object] = lambda surfaces: None
) -> dict[str, Any]:
    """All data of the page, in JSON types.

    - progress: a function that is called with 1 after each surface.
    - more: further questions with the same batches and contexts as `grid`. The surfaces of these questions
      follow those of `grid`.

    Raises InputError for an impossible question, and for more data than a page can hold.
    """
    asked = [pair for question in (grid, *more) for pair in _questions(question)]
    last_gammas = [scenario.longest(query.max_gamma) for query, scenario in asked]
    _check_sizes(grid, last_gammas)
    start = _first_shown_gamma(grid, min(last_gammas))
    pool = Pool()
    cases: list[dict[str, Any]] = []
    for (query, scenario), last_gamma in zip(asked, last_gammas, strict=True):
        cases.append(_case(pool, grid, query, scenario, last_gamma))
        progress(1)
    return {
        "version": version("perfmodel"),
        "coverage": COVERAGE,
        "z": Z,
        "least_extra": LEAST_EXTRA,
        "batch": grid.axis("batch"),
        "context": grid.axis("context"),
        "verdicts": SENTENCES,
        "limiters": list(LIMITERS.values()),
        "start": {
            "alpha": grid.axis("alpha")[0],
            "gamma": start,
            "draft": cases[0]["draft"] if grid.states_draft else None,
        },
        "cases": cases,
        "pool": pool.arrays,
    }


def _check_sizes(grid: Exploration, last_gammas: list[int]) -> None:
    """Raises InputError for surfaces without a draft length, and for more data than a page can hold.

    - last_gammas: the longest draft length of each surface.
    """
    if min(last_gammas) < 1:
        raise refuse("--max-gamma", None, "a whole number from 1", grid.max_gamma)
    if grid.points > MAX_POINTS:
        raise refuse("--batch, --context", None, f"at most {MAX_POINTS} points a surface", grid.points)
    values = grid.points * sum(last_gamma + 1 for last_gamma in last_gammas)
    if values > MAX_VALUES:
        raise refuse(
            "--model, --hardware, --tp, --draft-kv, --batch, --context, --max-gamma",
            None,
            f"at most {MAX_VALUES} points of all surfaces",
            values,
        )


def _first_shown_gamma(grid: Exploration, last_gamma: int) -> int | None:
    """The draft length that the page shows first; None means the best one. Raises InputError for a length
    beyond the slider.

    - last_gamma: the end of the slider.
    """
    start: int | None = grid.axis("gamma")[0]
    if start is not None and not 1 <= start <= last_gamma:
        raise refuse("--gamma", None, f"auto or from 1 to {last_gamma}, the range of its slider", start)
    return start


def page(content: dict[str, Any]) -> str:
    """The text of the HTML file.

    - content: a `payload`.

    Equal payloads give equal bytes.
    """
    folder = Path(__file__).parent
    text = (folder / "template.html").read_text(encoding="utf-8")
    data = json.dumps(content, allow_nan=False, separators=(",", ":"), ensure_ascii=False).replace(
        "<", "\\u003c"
    )
    parts = {name: (folder / name).read_text(encoding="utf-8") for name in PARTS} | {"payload.json": data}
    for name, part in parts.items():
        text = text.replace(f"/* {name} */", part.strip("\n"))
    return text


@dataclass(frozen=True)
class Page:
    """The HTML file of the explorer as text. A notebook shows it in a frame."""

    html: str = field(repr=False)

    def _repr_html_(self) -> str:
        shown = 'title="Speedup surfaces" style="width: 100%; height: 60em; border: 0"'
        return f'<iframe {shown} srcdoc="{escape(self.html)}"></iframe>'


@asks(Exploration)
def explore(exploration: Exploration) -> Page:
    """The page of ``perfmodel explore``, for a notebook: maps of the speedup over batch and context, with
    sliders for acceptance and draft length.

    Raises InputError for wrong input.
    """
    return Page(page(payload(exploration)))


def _questions(grid: Exploration) -> list[tuple[Query, Scenario]]:
    """One question for each surface. Those of a stated draft come before those of `drafts`, and those of the
    default draft after them. Raises InputError if two of them would have the same title in the page.
    """
    groups = list(grid.groups())
    asked = {}
    for query, _, scenario in itertools.chain.from_iterable(group.resolved() for group in groups):
        name = _name(query, scenario)
        if name in asked:
            model, hardware, tp, _, kv = name
            raise InputError(
                f"--model, --hardware, --tp, --draft-kv: {model} on {tp} x {hardware} "
                f"with {kv} is given twice"
            )
        asked[name] = query, scenario
    every = itertools.chain.from_iterable(map(_of_drafts, groups))
    listed = [pair for pair in every if _name(*pair) not in asked]
    return [*asked.values(), *listed] if grid.states_draft else [*listed, *asked.values()]


def _name(query: Query, scenario: Scenario) -> tuple[str, str, int, str, str]:
    """What distinguishes a surface from the others of a page."""
    draft = scenario.draft
    return scenario.target.name, scenario.machine.gpu.name, query.tp, draft.name, draft.kv.label()


def _of_drafts(grid: Exploration) -> Iterator[tuple[Query, Scenario]]:
    """The surfaces of `drafts` on serving engines. A model without such a draft has no surface."""
    for model, draft in itertools.product(grid.axis("model"), grid.axis("drafts")):
        one = replace(grid, model=(model,), draft=draft, draft_kv=("full",))
        with suppress(InputError):
            resolved = [(query, scenario) for query, _, scenario in one.resolved()]
            yield from (pair for pair in resolved if _support(*pair) is not None)


def _case(pool: Pool, grid: Exploration, query: Query, scenario: Scenario, last: int) -> dict[str, Any]:
    """One surface: passes over ``[batch, context, gamma]`` with gamma 0 to `last`. gamma 0 is the baseline
    step.
    """
    batch = np.asarray(grid.axis("batch"), float)[:, None, None]
    context = np.asarray(grid.axis("context"), float)[None, :, None]
    gammas: Array = np.arange(last + 1.0)
    error = log_error(scenario, batch[..., 0], context[..., 0], np.arange(last + 1))
    room = capacity.memory_of(scenario, batch, context, gammas, query.memory_fraction)
    available = float(np.min(room.available_bytes))
    inflections = [inflection_context(scenario, gamma, query.batch_range) for gamma in range(last + 1)]
    published = [_published(scenario, float(length)) for length in grid.axis("context")]
    max_batch = np.where(gammas > 0, room.max_batch, room.ar_max_batch)
    iteration = _iteration(pool, scenario, batch, context, gammas)
    figures = {
        "kv_budget": scenario.draft.kv.budget,
        "available_bytes": available if np.isfinite(available) else None,
        "last_gamma": last,
        "max_batch": pool.add(max_batch),
        "log_error": None if error is None else pool.add(error),
        "log_middle": log_middle(scenario),
        "inflection_context": inflections,
        "published": published,
        "measured": measured_speedups(scenario),
        "is_measured": is_measured(scenario),
    }
    return _subject(query, scenario) | iteration | figures


def _iteration(pool: Pool, scenario: Scenario, batch: Array, context: Array, gammas: Array) -> dict[str, Any]:
    """The times of an iteration's parts, and the number of draft passes."""
    draft = scenario.draft
    verify = scenario.target_step(batch, context, gammas + 1.0)
    drafting = scenario.draft_step(batch, context, draft.query(np.maximum(gammas, 1.0)))
    return {
        "target": _pass(pool, verify),
        "draft_step": _pass(pool, drafting),
        "draft_passes": np.broadcast_to(draft.passes(gammas), gammas.shape).tolist(),
        "overhead_s": pool.add(scenario.overhead_s(batch, context)),
    }


def _subject(query: Query, scenario: Scenario) -> dict[str, Any]:
    """The subject of a surface: names, the engine and calibration behind it, and limits of its models."""
    target = scenario.target
    draft = scenario.draft
    models = (target, draft.model) if draft.named_model else (target,)
    runs = _support(query, scenario)
    transferred_from = scenario.machine.calibration.gpu if is_transferred(scenario) else None
    method = query.draft_kv
    if query.draft is not None and draft.kind != "self":
        method = query.draft if draft.kv.reads_all else f"{query.draft}, {query.draft_kv}"
    limits = {
        "max_context": {m.name: m.max_position_embeddings for m in models},
        "vocabulary": {m.name: m.vocab_size for m in models},
    }
    return {
        "model": target.name,
        "hardware": scenario.machine.gpu.name,
        "tp": query.tp,
        "draft": draft.name,
        "draft_kv": draft.kv.label(),
        "method": method,
        "runs_in": None if runs is None else runs.text,
        "runs": runs is not None and runs.runs,
        "flags": _flags(query),
        "calibration": plain(Calibrated.of(scenario)),
        "transferred_from": transferred_from,
        **limits,
    }


def _support(query: Query, scenario: Scenario) -> RunsIn | None:
    """Whether the engine of the question runs the draft; None for a stack that is not a serving engine."""
    return runs_in(engine_of(scenario.machine.calibration), scenario.draft, query.engine)


def _pass(pool: Pool, time: PassTime[Floats]) -> dict[str, int]:
    """The indices of the times of a pass: predicted, lower bound and terms."""
    shown = {"predicted_s": time.predicted_s, "lower_s": time.lower_s, **time.terms_s}
    return {name: pool.add(seconds) for name, seconds in shown.items()}


def _published(scenario: Scenario, context: float) -> list[float | str] | None:
    """The measured alpha of exactly this pair at this context, and its source; None if it was not
    measured.
    """
    draft = scenario.draft
    try:
        row = find_acceptance(scenario.target.name, draft.name, draft.kv.name, draft.kv.budget, context)
    except InputError:
        return None
    return None if row.alpha is None else [row.alpha, row.source]


def _flags(query: Query) -> str:
    """The flags of ``perfmodel whatif`` for this surface: its subject, and everything that differs from the
    defaults.
    """
    given = {name: getattr(query, name) for name in SUBJECT}
    for each in fields(Query):
        value = getattr(query, each.name)
        if each.name not in (*SUBJECT, *POINT) and value != each.default:
            given[each.name] = value
    if "batch_range" in given:
        given["batch_range"] = "..".join(f"{end:.0f}" for end in query.batch_range)
    parts = [("--" + name.replace("_", "-"), str(value)) for name, value in given.items()]
    return shlex.join(text for part in parts for text in part)
