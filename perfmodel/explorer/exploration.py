"""The question of `perfmodel explore`."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from perfmodel import drafts
from perfmodel.answers.declaration import argument, question
from perfmodel.answers.grid.grid import Grid
from perfmodel.answers.question import arguments as arg
from perfmodel.answers.readers import (
    Lengths,
    MaybeReals,
    MaybeWholes,
    MaybeWords,
    Wholes,
    Words,
    gammas,
    methods,
    names,
)
from perfmodel.errors import InputError, refuse, unknown_name
from perfmodel.speculation import DEFAULT_BATCH_RANGE, capacity

DEGREES = (1, 2, 4, 8)
"""Tensor-parallel degrees to try."""
SPARSE = ("streamingllm:512", "snapkv:2k", "quest:1k")
"""KV methods of the self-drafts that the page shows by default."""
MOST_WEIGHTS = 0.5
"""Largest share of the memory for weights with which a server has room for a batch. The value is a choice."""


@question
class Exploration(Grid):
    """A question for maps of the speedup over batch and context (*surfaces*). All arguments have defaults.
    Batches and contexts are sorted. A slider in the page sets the acceptance rate.
    """

    model: Words = argument(
        "Target models, separated by commas.",
        "NAME|PATH,...",
        "-m",
        names,
        default="llama-3.1-8b,llama-3.1-70b,qwen3-30b-a3b",
    )
    hardware: Words = argument(
        "Devices, separated by commas.",
        "NAME|PATH,...",
        "--gpu --device",
        names,
        default="a100-sxm-80gb,h100-sxm-80gb,h200-sxm-141gb,mi300x-192gb",
    )
    batch: Wholes = argument(
        "Batch sizes: rows of the map.", arg.COUNTS, "--batch-size -b", default="1..256x2,3..192x2"
    )
    context: Wholes = argument(
        "Contexts: columns of the map.",
        arg.COUNTS,
        "--context-length -c",
        default="1k..128kx2,1536..96kx2",
    )
    gamma: Lengths = argument(
        "Initial value of the draft-length slider.", "N|auto", "-g", gammas, shown="auto", default=None
    )
    tp: MaybeWholes = argument(  # type: ignore[assignment]  # None: a degree for each model and device
        "Number of devices in a tensor-parallel group.",
        "N,...",
        "--tensor-parallel-size --tp-size",
        shown="the smallest of 1, 2, 4 and 8 at which the weights fill at most half of the memory",
        default=None,
    )
    draft_kv: MaybeWords = argument(
        "KV method and budget of the draft.",
        "METHOD[:BUDGET],...",
        read=methods,
        shown=f"{','.join(SPARSE)}; full for a --draft other than self",
        default=None,
        group="Draft",
    )
    drafts: Words = argument(
        "Drafts that use the full cache. The page has one surface for each listed draft that exists for a "
        "model.",
        "DRAFT,...|none",
        read=names,
        default="eagle3,mtp,ngram",
        group="Draft",
    )
    alpha: MaybeReals = argument(
        "Initial value of the acceptance slider.", "RATE", default=0.8, group="Acceptance"
    )
    batch_range: arg.BatchRange = argument(default=DEFAULT_BATCH_RANGE)

    def check(self) -> None:
        """Raises InputError for a question that a page with sliders cannot show."""
        super().check()
        for flag, given in (
            ("--tokens-per-iteration", self.tokens_per_iteration),
            ("--acceptance", self.acceptance),
        ):
            if given is not None:
                raise InputError(f"{flag}: the page has a slider for acceptance; --alpha sets its start")
        known = ("none", "eagle3", *drafts.names())
        for word in self.axis("drafts"):
            if drafts.spelled(word) not in known:
                raise unknown_name("--drafts", "draft", word, known)
        for name in ("alpha", "gamma"):
            if len(self.axis(name)) > 1:
                raise refuse(f"--{name}", None, "one value, the start of its slider", len(self.axis(name)))

    def groups(self) -> "Iterator[Exploration]":
        """The question itself if `tp` is given. Otherwise, the method yields one question for each pair of
        model and device, with a tensor-parallel degree for this pair.
        """
        if self.tp is not None:
            yield self
            return
        for model, hardware in itertools.product(self.axis("model"), self.axis("hardware")):
            group = replace(self, model=(model,), hardware=(hardware,))
            yield replace(group, tp=(_degree(group),))

    def doubts(self) -> tuple[str, ...]:
        """See `Grid.doubts`. A warning about "the draft" names it, because a page has several drafts."""
        drafts_of: dict[str, dict[str, None]] = {}
        for query, note in itertools.chain.from_iterable(group.noted() for group in self.groups()):
            name = query.draft_kv if query.draft in (None, "self") else query.draft
            drafts_of.setdefault(note, {})[str(name)] = None
        return tuple(
            note.replace("the draft", f"the draft {', '.join(names)}", 1) for note, names in drafts_of.items()
        )

    @property
    def states_draft(self) -> bool:
        """Whether the question states a draft or the KV methods of the self-draft."""
        return self.draft is not None or self.axis("draft_kv") != SPARSE

    @property
    def points(self) -> int:
        """The number of points of one surface, which is the number of batches times the number of
        contexts.
        """
        return len(self.axis("batch")) * len(self.axis("context"))

    @classmethod
    def settled(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The arguments, with batches and contexts sorted and without duplicates, and with the KV methods of
        the draft.
        """
        axes = {name: tuple(sorted(set(values[name]))) for name in ("batch", "context")}
        methods_of = values["draft_kv"]
        if methods_of is None:
            kind = drafts.spelled((values["draft"] or "self").partition(":")[0])
            methods_of = SPARSE if kind == "self" else ("full",)
        return super().settled(values | axes | {"draft_kv": methods_of})


def _degree(group: Exploration) -> int:
    """The smallest tensor-parallel degree with which weights take at most `MOST_WEIGHTS` of the memory. If
    there is none, it is the largest degree that the model allows. Raises InputError if the model allows no
    degree.
    """
    answered = None
    for degree in DEGREES:
        try:
            _, contexts, scenario = next(replace(group, tp=(degree,)).resolved())
        except InputError:
            if degree == DEGREES[-1] and answered is None:
                raise
            continue
        answered = degree
        room = capacity.memory_of(scenario, 1.0, contexts[0], 0.0, group.memory_fraction)
        if room.weight_bytes <= MOST_WEIGHTS * room.available_bytes:
            break
    return answered or DEGREES[-1]
