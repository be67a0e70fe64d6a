"""``perfmodel compare``: speculation or batching, and how both compose."""

from collections.abc import Iterator, Sequence

from perfmodel.answers.batching import Disaggregation
from perfmodel.answers.compare import Comparison, compare
from perfmodel.answers.text import seconds, size, tokens
from perfmodel.cli.output import Column, say, table
from perfmodel.cli.verb import verb


def _print(answers: Sequence[Comparison]) -> None:
    for a in answers:
        q, m = a.query, int(a.query.gamma or 0) + 1
        say(f"{q.model} on {q.tp} x {q.hardware}, context {q.context:g}, {m} tokens a pass", "bold")
        rows = []
        for label, p, draft_s in (
            (f"1 x {m} tokens", a.speculating, a.speculating.draft_s),
            (f"{m} x 1 token", a.batching, 0.0),
        ):
            moved = (size(p.weight_bytes), size(p.kv_bytes), size(p.activation_bytes))
            spent = (seconds(p.predicted_s), seconds(draft_s) if draft_s else "-", f"{p.tokens:.2f}")
            rows.append((label, *moved, *spent, seconds((p.predicted_s + draft_s) / p.tokens)))
        columns = ("requests", "weights", "KV", Column("activations", spare=1), "time", "drafting", "tokens")
        table((*columns, "time a token"), rows)
        for line in _sentences(a):
            say(line)
        table((Column("", left=True), "baseline", "speculating"), list(_pools(a)))


def _sentences(a: Comparison) -> Iterator[str]:
    yield (
        f"Batching moves {a.kv_ratio:.1f} times the KV bytes and {a.bytes_per_pass_ratio:.2f} times the bytes of a "
        f"pass; per token gained, speculation moves {a.bytes_per_token_ratio:.2f} times as many and takes "
        f"{a.seconds_per_token_ratio:.2f} times as long."
    )
    if a.crossover_context is None:
        yield "Batching moves the fewer bytes per token at every context."
    else:
        yield f"Equal bytes per token, the draft's left out, from context {tokens(a.crossover_context)}."


def _pools(a: Comparison) -> Iterator[tuple[str, str, str]]:
    """What a served pool does without and with speculation: name, baseline, speculating."""
    pools = (a.disaggregated.baseline, a.disaggregated.speculating)
    chunks = (a.chunked_prefill.baseline, a.chunked_prefill.speculating)

    def row(name: str, *cells: str) -> tuple[str, str, str]:
        one, two = cells
        return name, one, two

    yield row(f"decode pool of batch {a.query.batch:g}, requests/s", *(f"{p.requests_per_s:.2f}" for p in pools))
    yield row("fed by prefill groups", *(f"{p.prefill_groups:.2f}" for p in pools))
    yield row("moved for each request", *(size(p.transfer_bytes) for p in pools))
    if pools[0].transfer_s is not None:
        yield row("moving it, of the link's time", *map(_moved, pools))
    yield row("prompt tokens that fill idle FLOPs of a pass", *(f"{c.tokens:.0f}" for c in chunks))
    yield row("so prompt tokens/s", *(f"{c.prompt_tokens_per_s:,.0f}" for c in chunks))
    yield row("and generated tokens/s", *(f"{c.output_tokens_per_s:,.0f}" for c in chunks))
    if (c := a.composition) is not None:
        yield row("1 request, tokens/s", f"{c.alone:,.0f}", f"{c.drafted:,.0f} (gamma {c.drafted_gamma})")
        both = f"{c.both:,.0f} (batch {c.both_at}, gamma {c.both_gamma})"
        yield row("as many as fit, tokens/s", f"{c.batched:,.0f} (batch {c.batched_at})", both)


def _moved(pool: Disaggregation) -> str:
    return f"{seconds(pool.transfer_s)} ({pool.link_share:.1%})"


app = verb(compare, _print, "context", "gamma")
