"""``perfmodel compare``: speculation or batching, and how both compose."""

from collections.abc import Iterable, Iterator

from perfmodel.answers.batching import Disaggregation
from perfmodel.answers.compare import CompareQuery, Comparison
from perfmodel.answers.compare import compare as answer
from perfmodel.answers.text import seconds, size, tokens
from perfmodel.cli.options import App, Json, takes
from perfmodel.cli.output import Column, each, say, show_rows, table

app = App()


@app.command()
@takes(CompareQuery, "context", "gamma")
def compare(queries: list[CompareQuery], json: Json = False) -> None:
    """One request verifying gamma + 1 tokens, or gamma + 1 requests decoding one token each?

    Also how both compose in the memory there is, what speculation does to a disaggregated decode pool, and how much of
    the idle FLOPs it leaves to chunked prefill.
    """
    show_rows(each(answer, queries), json, _print)


def _print(answers: Iterable[Comparison]) -> None:
    for a in answers:
        q, m = a.query, int(a.query.gamma or 0) + 1
        say(f"{q.model} on {q.tp} x {q.hardware}, context {q.context:g}, {m} tokens a pass", "bold")
        rows = []
        for label, p, draft_s in (
            (f"1 request x {m}", a.speculating, a.speculating.draft_s),
            (f"{m} requests x 1", a.batching, 0.0),
        ):
            moved = (size(p.weight_bytes), size(p.kv_bytes), size(p.activation_bytes))
            spent = (seconds(p.predicted_s), seconds(draft_s) if draft_s else "-", f"{p.tokens:.2f}")
            rows.append((label, *moved, *spent, seconds((p.predicted_s + draft_s) / p.tokens)))
        columns = ("one pass", "weights", "KV", Column("activations", spare=1), "time", "drafting", "tokens")
        table((*columns, "time a token"), rows)
        for line in _sentences(a):
            say(line)


def _sentences(a: Comparison) -> Iterator[str]:
    alone, verifying = a.chunked_prefill.baseline, a.chunked_prefill.speculating
    baseline, drafted = a.disaggregated.baseline, a.disaggregated.speculating
    yield (
        f"Batching moves {a.kv_ratio:.1f} times the KV bytes and {a.bytes_per_pass_ratio:.2f} times the bytes of a "
        f"pass; per token gained, speculation moves {a.bytes_per_token_ratio:.2f} times as many and takes "
        f"{a.seconds_per_token_ratio:.2f} times as long."
    )
    if a.crossover_context is None:
        yield "Batching moves the fewer bytes per token at every context."
    else:
        yield f"Equal bytes per token, the draft's left out, from context {tokens(a.crossover_context)}."
    yield (
        f"Decode pool of batch {a.query.batch:g}: {baseline.requests_per_s:.2f} requests/s, fed by "
        f"{baseline.prefill_groups:.2f} prefill groups, {size(baseline.transfer_bytes)} moved for each request; "
        f"speculating {drafted.requests_per_s:.2f}, {drafted.prefill_groups:.2f} and {size(drafted.transfer_bytes)}."
    )
    if baseline.transfer_s is not None:
        moved = ", speculating ".join(map(_moved, (baseline, drafted)))
        yield f"Moving a request's cache over the device's link takes {moved}."
    yield (
        f"Chunked prefill of {alone.tokens:.0f} tokens a pass fills its idle FLOPs: "
        f"{alone.prompt_tokens_per_s:.0f} prompt tokens/s and {alone.output_tokens_per_s:.0f} generated, speculating "
        f"{verifying.tokens:.0f}, {verifying.prompt_tokens_per_s:.0f} and {verifying.output_tokens_per_s:.0f}."
    )
    if (c := a.composition) is not None:
        yield (
            f"In memory: {c.alone:.0f} tokens/s alone, {c.batched:.0f} batched ({c.batched_at}), {c.drafted:.0f} "
            f"drafted (gamma {c.drafted_gamma}), {c.both:.0f} both (batch {c.both_at}, gamma {c.both_gamma})."
        )


def _moved(pool: Disaggregation) -> str:
    return f"{seconds(pool.transfer_s or 0.0)} ({pool.link_share:.1%} of its time)"
