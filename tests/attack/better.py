"""A better device is never slower: one figure of a device rises, and no pass of a question takes longer."""

import json
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from perfmodel.answers.question import Query, resolve
from perfmodel.errors import InputError
from perfmodel.specs.boundary import files
from perfmodel.specs.calibrations.engine_words import ENGINES
from perfmodel.speculation.iteration import IterationTimes, Passes
from tests.attack import watch
from tests.attack.cliffs import DRAFTS, sizes

FIGURES = ("peaks", "one peak", "bandwidth", "link", "host link", "capacity", "clock")
MOST = 1.5
"""Largest factor on a figure."""
ROUNDING = 1e-9
PASSES = ("target", "draft per token", "verification", "overhead")
OWN = "own-device.json"
GAMMAS = np.arange(6)
RACKS = 0.3
"""Share of the questions about several nodes."""
LAYOUTS: tuple[dict[str, Any], ...] = (
    {"tp": 16, "nodes": "2x8"},
    {"tp": 8, "pp": 2, "nodes": "2x8"},
    {"tp": 16, "ep": 16, "dp": 16, "nodes": "2x8"},
    {"tp": 16, "ep": 16, "dp": 2, "nodes": "2x8"},
)
"""Groups over nodes."""


def attack(tally: watch.Tally, folder: Path, seed: int, count: int) -> None:
    """Pairs of questions over all models, devices, engines and drafts, by the figure that is better."""
    rng = Random(f"{seed}:better")
    place = folder / OWN
    while sum(tally.tried.values()) < count:
        device = rng.choice(files.bundled_names("gpus"))
        figure = rng.choice(FIGURES)
        better = raised(figures_of(device), figure, rng)
        if better is None:
            continue
        question = _question(rng, str(place))
        try:
            before = asked(question, figures_of(device), place)
            after = asked(question, better, place)
        except InputError:
            continue  # the engine has no such device, say: not what is looked for here
        fault = slower(before, after)
        tally.count(figure, False, fault and f"{device}: {replace(question, hardware=device)}: {fault}")


def asked(question: Query, device: dict[str, Any], place: Path) -> IterationTimes:
    """The times of the passes of a question over all `GAMMAS`, on a device written to a file."""
    place.write_text(json.dumps(device), encoding="utf-8")
    scenario = resolve(question)
    batch = np.asarray(float(question.batch))
    return Passes(scenario, batch, np.asarray(float(question.context)), GAMMAS).times(scenario)


@cache
def figures_of(device: str) -> dict[str, Any]:
    """The file of a bundled device."""
    return files.read_mapping(files.data_directory("gpus") / f"{device}.yaml")


def raised(device: dict[str, Any], figure: str, rng: Random) -> dict[str, Any] | None:
    """The device with a better figure; None if it has no such figure."""
    better = deepcopy(device)
    quantities = _quantities(better, figure, rng)
    factor = rng.uniform(1.0, MOST)
    for quantity in quantities:
        quantity["value"] *= factor
    return better if quantities else None


def _quantities(device: dict[str, Any], figure: str, rng: Random) -> list[dict[str, Any]]:
    peaks = list(device.get("peak", {}).values())
    if figure == "peaks":
        return peaks
    if figure == "one peak":
        return [rng.choice(peaks)] if peaks else []
    if figure in ("link", "host link"):
        link = device.get(figure.replace(" ", "_"))
        return [link["per_direction"]] if link else []
    key = {"bandwidth": "memory_bandwidth", "capacity": "memory", "clock": "boost_clock"}[figure]
    return [device[key]] if device.get(key) else []


def _question(rng: Random, hardware: str) -> Query:
    model = rng.choice(files.bundled_names("models"))
    batch, context = sizes(rng)
    tp = rng.choice((1, 2, 4, 8))
    engine = rng.choice(list(ENGINES))
    weights = rng.choice((None, None, "fp8", "bf16"))
    draft = rng.choice(DRAFTS)
    question = Query(
        model, hardware, batch, context, alpha=0.7, tp=tp, engine=engine, weights=weights, **draft
    )
    if rng.random() < RACKS:
        question = replace(question, **rng.choice(LAYOUTS))
    return question


def slower(before: IterationTimes, after: IterationTimes) -> str | None:
    """The first pass that takes longer."""
    for name, was, now in zip(PASSES, before, after, strict=True):
        share = np.max(np.asarray(now) / np.maximum(was, 1e-12))
        if share > 1 + ROUNDING:
            return f"{name}: {share:.4f} times as long"
    return None
