"""Two levels as lines of text: what each level gained, beside what the engine makes of the two rates."""

import numpy as np

from perfmodel.errors import InputError
from perfmodel.speculation.acceptance import Acceptance
from perfmodel.speculation.two_levels import inner_rounds
from perfmodel.validate.decoder.compare import Run
from perfmodel.validate.decoder.two_levels import LevelCounts


def check_levels(draft: str, tree: str | None, alpha: float | None) -> None:
    """Refuse, before anything is loaded, what two levels cannot be run with. Raises InputError."""
    if draft == "self" or draft.partition(":")[0] == "ngram" or tree is not None or alpha is not None:
        raise InputError("--middle-kv: must stand over a separate --draft model, without --tree and --alpha")


def level_lines(run: Run) -> list[str]:
    """What each level gained, measured and as the two measured rates make expect; nothing of a run with one level."""
    counts, request = run.counts, run.request
    if not isinstance(counts, LevelCounts):
        return []
    inner, outer = map(Acceptance.from_alpha, counts.alphas)
    rounds = inner_rounds(inner, request.inner_gamma, request.gamma)
    gained = np.cumsum(outer.survival(request.max_accepted))[request.gamma :]
    per_round = float(inner.survival(request.inner_gamma).sum())
    return [
        f"{request.cache_name}: gamma {request.inner_gamma} below, {request.gamma} above; measured (expected of the "
        "rates):",
        f"  small draft for the sparse target: rate {counts.alphas[0]:.2f}; tokens/round {counts.tokens_per_round:.2f} "
        f"({per_round:.2f}); rounds/it {counts.rounds:.2f} ({rounds.expected:.2f})",
        f"  sparse target for the full one: rate {counts.alphas[1]:.2f}; drafted/it {counts.drafted:.2f} "
        f"({rounds.expected_drafted:.2f}); tokens/it {counts.tokens_per_iteration:.2f} "
        f"({float(gained @ rounds.drafted):.2f})",
    ]
