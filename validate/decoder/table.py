"""Runs as lines of text: measured beside predicted, and what the drafts got accepted."""

from dataclasses import dataclass

from perfmodel.validate.decoder.compare import Run

COLUMNS = ("draft cache", "tokens/s", "speedup", "from parts", "predicted", "T_D ms", "T_V ms", "rest ms", "tokens/it")
WIDTHS = (28, 9, 8, 10, 9, 8, 8, 8, 9)


@dataclass(frozen=True)
class Predicted:
    """The engine's answer: tokens/s of plain decoding, and the speedup."""

    plain_tokens_per_s: float
    speedup: float


def lines(plain: Run, runs: list[Run], predicted: list[Predicted | None]) -> list[str]:
    """The table, one line for each run, and what is to be said about it."""
    request, deepest = runs[0].request, max(run.request.max_accepted for run in runs)
    told = next((p for p in predicted if p), None)
    drafting = f"gamma {request.gamma}" if request.tree is None else "token trees"
    first = [
        f"batch {request.batch}, context {request.context}, {request.new_tokens} new tokens, "
        f"{drafting}, draft {request.draft}; prefill {plain.prefill_s:.2f} s; "
        f"plain decoding {plain.tokens_per_s:.1f} tokens/s, "
        f"T_T {plain.verify_s * 1e3:.2f} ms" + (f" (predicted {told.plain_tokens_per_s:.0f})" if told else ""),
        _row(COLUMNS) + f"  accepted 0..{deepest}",
    ]
    rows = [_line(run, plain, p) for run, p in zip(runs, predicted, strict=True)]
    return first + rows + _remarks(runs) + _legend(told is not None)


def _row(cells: tuple[str, ...]) -> str:
    return " ".join(
        text.ljust(width) if i == 0 else text.rjust(width)
        for i, (text, width) in enumerate(zip(cells, WIDTHS, strict=True))
    )


def _line(run: Run, plain: Run, predicted: Predicted | None) -> str:
    cells = (
        run.request.cache_name,
        f"{run.tokens_per_s:.1f}",
        f"{run.tokens_per_s / plain.tokens_per_s:.2f}",
        f"{run.speedup_from_parts(plain):.2f}",
        f"{predicted.speedup:.2f}" if predicted else "-",
        f"{run.draft_s * 1e3:.2f}",
        f"{run.verify_s * 1e3:.2f}",
        f"{run.outside_s * 1e3:.2f}",
        f"{run.generation.tokens_per_iteration:.2f}",
    )
    return _row(cells) + "  " + " ".join(map(str, run.generation.histogram))


def _remarks(runs: list[Run]) -> list[str]:
    """Whether greedy outputs are the plain one's."""
    request = runs[0].request
    if not request.sampling.greedy or request.script is not None:
        return []
    different = [
        f"{run.request.cache_name}: differs from plain decoding at token {d.position} of sequence {d.sequence}, "
        f"where the two scores are {d.margin:.1f} roundings apart"
        for run in runs
        if (d := run.difference) is not None
    ]
    return different or ["all outputs equal plain decoding, token for token"]


def _legend(predicted: bool) -> list[str]:
    parts = "from parts: Omega T_T / (gamma T_D + T_V), acceptance and phases measured apart"
    return [parts if predicted else parts + "; predicted: name a device with --hardware"]
