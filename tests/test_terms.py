"""Questions about every kind of model, device, engine and draft: every number of an answer is as it was.

A question is a name in terms.json: model, device, and arguments of `Query`. ``python -m
tests.test_terms`` writes the numbers of all of them anew; the difference of the file shows what moved.
"""

import json
from dataclasses import asdict, is_dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from perfmodel.answers.question import Query, resolve
from perfmodel.speculation import (
    Acceptance,
    Workload,
    context_lengths,
    log_error,
    memory_of,
    predict,
    step_log_error,
)
from perfmodel.speculation.confidence import best_stop, by_confidence
from perfmodel.speculation.iteration import Passes
from perfmodel.speculation.tree import TreeAcceptance
from perfmodel.speculation.tree_cost import choose

KEPT = Path(__file__).with_name("terms.json")
ANSWERS = json.loads(KEPT.read_text(encoding="utf-8"))
BATCHES = np.array([[1.0], [6.0], [90.0]])
CONTEXTS = np.array([150.0, 3000.0, 40000.0])
LIKELY = Acceptance("drafts of two kinds", (0.8, 0.7), bins=((0.3, (0.9, 0.8)), (0.6, (0.6, 0.5))))
CHILDREN = TreeAcceptance((0.6, 0.2, 0.1))


def numbers(question: str) -> dict[str, list[float]]:
    """The figures of one question, by what they are about."""
    model, hardware, *options = question.split()
    stated = dict(option.split("=", 1) for option in options)
    query = Query(model, hardware, 6, 3000, **stated)  # type: ignore[arg-type]
    s = resolve(query)
    longest = query.max_gamma
    gammas = np.arange(longest + 1)
    passes = Passes(s, BATCHES, CONTEXTS, gammas)
    target = s.machine.time(passes.target_ops, BATCHES * passes.query)
    draft_query = s.draft.query(np.maximum(passes.drafted, 1.0))
    drafting = passes.draft_ops or s.draft_ops(BATCHES, CONTEXTS, draft_query)
    draft = s.draft_machine.time(drafting, BATCHES * draft_query)
    memory = memory_of(s, BATCHES, CONTEXTS, longest, query.memory_fraction)
    prediction = predict(s, Workload.of(BATCHES, CONTEXTS, longest), longest)
    in_sample = log_error(s, BATCHES, CONTEXTS, gammas)
    of_a_step = step_log_error(s, target.at(), 1.0, 150.0)
    by_term = {
        "target": target,
        "draft": draft,
        "once": [s.overhead_s(BATCHES, CONTEXTS), s.setup_s(BATCHES, CONTEXTS)],
        "energy": Passes(s, 6.0, 3000.0, np.array([longest])).energy(s),
        "memory": memory,
        "prediction": prediction,
        "error": [in_sample, of_a_step],
        "lengths": context_lengths(s, 6.0, longest),
    }
    if s.draft.passes(2.0):
        likely = replace(s, acceptance=LIKELY)
        by_term["tree"] = choose(s, CHILDREN, 6.0, 3000.0, 12)
        by_term["stop"] = list(best_stop(likely, BATCHES[:, 0], CONTEXTS, 1, fraction=1e6))
        by_term["cut"] = by_confidence(likely, BATCHES[:, 0], 3000.0)
    return {name: sums(value) for name, value in by_term.items()}


def sums(value: object) -> list[float]:
    """Of an array, weighted by the place of each number; of the parts of a class, a mapping or a list one
    after the other.
    """
    parts = asdict(value) if is_dataclass(value) else value  # type: ignore[arg-type]
    parts = list(parts.values()) if isinstance(parts, dict) else parts
    if isinstance(parts, list):
        return [number for part in parts for number in sums(part)]
    flat = np.nan_to_num(np.ravel(np.asarray(parts, float)), posinf=0.0)  # None is no number
    places = np.arange(1.0, flat.size + 1)
    return [float(f"{flat @ places:.11g}")]


@pytest.mark.parametrize("question", ANSWERS)
def test_every_number_is_as_it_was(question: str) -> None:
    kept = {name: pytest.approx(values, rel=1e-9) for name, values in ANSWERS[question].items()}
    assert numbers(question) == kept, "if that is meant: make docs"


if __name__ == "__main__":
    lines = (f'"{question}": {json.dumps(numbers(question))}' for question in ANSWERS)
    KEPT.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
