"""One more sequence, or token of context, changes no pass's time by much unless the answer says why.

And more sequences serve no fewer tokens, unless the answer names a batch that serves more.
"""

from dataclasses import replace
from random import Random

from perfmodel.answers.point.whatif import whatif
from perfmodel.answers.point.whatif_answer import WhatIf
from perfmodel.answers.question import Query
from perfmodel.errors import InputError
from perfmodel.specs.boundary.files import bundled_names
from tests.attack import watch

RISE = 1.1
"""Factor beyond what is in proportion to the sequences that is not much."""
FALL = 0.93
"""The same for a fall."""
WORDS = ("CUDA graphs pad", "longer than with one")
LESS = 0.998
"""Share of the tokens per second that a larger batch serves at least."""
ONE_MORE = {"batch": "one more sequence", "context": "one more token of context"}
SMALLER = "serves more without a draft"
"""What an answer says otherwise."""
DRAFTS = (
    *({"draft_kv": kv} for kv in ("full", "streamingllm:512", "snapkv:1k", "quest:512")),
    *({"draft": draft} for draft in ("eagle", "eagle:features=3", "ngram", "mtp:modules=1", "llama-3.2-1b")),
)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
CONTEXTS = (128, 1024, 2048, 8192, 16384, 32768)


def attack(tally: watch.Tally, seed: int, count: int) -> None:
    """Pairs of questions over all models, devices, stacks and drafts, by what there is one more of."""
    rng = Random(f"{seed}:cliffs")
    while sum(tally.tried.values()) < count:
        query = _question(rng)
        more = rng.choice(("batch", "context"))
        try:
            pair = whatif(query), whatif(replace(query, **{more: getattr(query, more) + 1}))
        except InputError:
            continue  # no such group, or no acceptance is known: not what is looked for here
        silent = steep(*pair) and not explained(*pair)
        slower = more == "batch" and serves_less(*pair) and not any(SMALLER in w for w in pair[1].warnings)
        fault = f"{query}: silent" if silent or slower else None
        tally.count(ONE_MORE[more], explained(*pair), fault)


def _question(rng: Random) -> Query:
    stack = rng.choice(bundled_names("calibrations"))
    device = next((name for name in bundled_names("gpus") if stack.startswith(name)), None)
    model = rng.choice(bundled_names("models"))
    hardware = device or rng.choice(bundled_names("gpus"))
    calibration = stack if device else None
    batch, context = sizes(rng)
    gamma = rng.choice((1, 2, 3, 4, 7))
    tp = rng.choice((1, 2, 4, 8))
    draft = rng.choice(DRAFTS)
    return Query(model, hardware, batch, context, gamma, alpha=0.7, tp=tp, calibration=calibration, **draft)


def sizes(rng: Random) -> tuple[int, int]:
    """A batch and a context, usual ones or any."""
    batch = rng.choice((*BATCHES, rng.randint(1, 300)))
    context = rng.choice((*CONTEXTS, rng.randint(100, 60_000)))
    return batch, context


def steep(less: WhatIf, more: WhatIf) -> bool:
    """Whether a pass takes much longer, or less, for one more."""
    share = more.query.batch / less.query.batch
    passes = (
        (getattr(a, name).predicted_s for a in (less, more))
        for name in ("target_step", "draft_step", "verify_step")
    )
    return any(s and not FALL <= m / s <= max(RISE, 1.02 * share) for s, m in passes)


def serves_less(less: WhatIf, more: WhatIf) -> bool:
    """Whether the larger batch serves fewer tokens per second without a draft."""
    before, after = (a.query.batch / a.target_step.predicted_s for a in (less, more))
    return after < LESS * before


def explained(less: WhatIf, more: WhatIf) -> bool:
    """Whether one of the two says that a pass steps up."""
    return any(word in warning for warning in (*less.warnings, *more.warnings) for word in WORDS)
