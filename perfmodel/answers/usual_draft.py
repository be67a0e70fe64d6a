"""Which draft a question that names none is about: one that is published for the target and that the engine runs."""

from contextlib import suppress

from perfmodel.answers.runs_in import runs_in
from perfmodel.drafts import make_draft
from perfmodel.errors import InputError
from perfmodel.kv import parse_kv
from perfmodel.specs.acceptance_library import published_drafts, short_name
from perfmodel.specs.formats import BF16, Precision, kv_format
from perfmodel.specs.model import ModelSpec

ORDER = ("mtp", "eagle3", "dflash", "dspark")
"""Of several published drafts: what comes with the target before heads of their own, and these before other models."""
HEAD = "eagle3"
"""Where none is published and the target brings none: the head that all engines run and most targets have."""


def usual_draft(model: str, target: ModelSpec, engine: str | None, asked: str | None) -> str:
    """A value of ``--draft``; ``self`` where the engine is no serving engine.

    model: the target as it was named. asked: the question's ``--engine``.
    """
    published = sorted(published_drafts(short_name(model)), key=lambda name: (*ORDER, name).index(name))
    own = ("mtp",) if target.num_nextn_predict_layers else ()
    for name in (*published, *own, HEAD):
        with suppress(InputError):  # a head of another model's shape
            draft = make_draft(name, target, Precision(BF16, kv_format("bf16")), 1, parse_kv("full"))
            runs = runs_in(engine, draft, asked)
            if runs is not None and runs.runs:
                return name
    return "self"
