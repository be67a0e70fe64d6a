"""``perfmodel compare``: speculation compared with batching, and a draft model on other devices."""

from collections.abc import Sequence

from perfmodel.answers.point.apart import Apart
from perfmodel.answers.point.compare import Comparison, Pass, compare
from perfmodel.answers.text import context_text, model_and_shape, seconds, size, tokens
from perfmodel.cli.commands import LLAMA, verb
from perfmodel.cli.output import Column, say, table, warn_where

COLUMNS = (
    "requests",
    "weights",
    "KV",
    Column("activations", spare=1),
    "time",
    "drafting",
    "tokens",
    "time per token",
)


def _print(answers: Sequence[Comparison]) -> None:
    """Prints the bytes and times of speculation and of batching for each answer, and the context from which
    speculation moves fewer bytes.
    """
    for a in answers:
        q = a.query
        m = int(a.query.gamma or 0) + 1
        where = f"{model_and_shape(q.model, a.shape)} on {q.tp * q.pp} x {q.hardware}"
        say(f"{where}, context {context_text(q.context)}, {m} tokens per pass", "bold")
        speculating = _cells(f"1 x {m} tokens", a.speculating, a.speculating.draft_s)
        batching = _cells(f"{m} x 1 token", a.batching, 0.0)
        table(COLUMNS, [speculating, batching])
        say(
            f"A pass of the batch moves {a.kv_ratio:.1f} times the KV bytes and {a.bytes_per_pass_ratio:.2f} "
            f"times all bytes of a verification. Per output token, speculation moves "
            f"{a.bytes_per_token_ratio:.2f} times the bytes of batching and takes "
            f"{a.seconds_per_token_ratio:.2f} times as long."
        )
        if a.crossover_context is None:
            say("Batching moves fewer bytes per token at every context.")
        else:
            fewer = f"from context {tokens(a.crossover_context)} on (without the bytes of the draft)"
            say(f"Speculation moves fewer bytes per token {fewer}.")
        if a.apart is not None:
            _separate_drafter(a.apart)
    warn_where(
        [(f"context {context_text(a.query.context)}, gamma {a.query.gamma}", a.warnings) for a in answers]
    )


def _cells(label: str, p: Pass, draft_s: float) -> tuple[str, ...]:
    """One cell for each of `COLUMNS`."""
    moved = (size(p.weight_bytes), size(p.kv_bytes), size(p.activation_bytes))
    drafting = seconds(draft_s) if draft_s else "-"
    per_token_s = (p.predicted_s + draft_s) / p.tokens
    return (label, *moved, seconds(p.predicted_s), drafting, f"{p.tokens:.2f}", seconds(per_token_s))


def _separate_drafter(a: Apart) -> None:
    """Prints a comparison of a drafter on separate devices with replicas on these devices."""
    layouts = {
        "replicas, no draft": a.replicas,
        "replicas with the draft": a.together,
        "separate drafter, in turn": a.before,
        "separate drafter, overlapped": a.while_verifying,
    }
    rows = []
    for label, layout in layouts.items():
        if layout is not None:
            point = (str(layout.batch), str(layout.gamma))
            rows.append((label, f"{layout.tokens_per_s:,.0f}", seconds(layout.tpot_s), *point))
    say(f"With {a.draft_devices} x {a.draft_hardware} in addition:", "bold")
    table(("layout", "tokens/s", "TPOT", "batch", "gamma"), rows)
    if a.while_verifying is None:
        say("Drafting during verification needs --hit and room for one sequence.")


app = verb(compare, _print, "context", "gamma", example=f"{LLAMA} --context 32k --gamma 3 --alpha 0.8")
