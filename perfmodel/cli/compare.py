"""``perfmodel compare``: speculation or batching, and a drafter on other devices."""

from collections.abc import Sequence

from perfmodel.answers.point.compare import Comparison, compare
from perfmodel.answers.text import seconds, size, tokens
from perfmodel.cli.commands import LLAMA, verb
from perfmodel.cli.output import Column, say, table, warn_where


def _print(answers: Sequence[Comparison]) -> None:
    for a in answers:
        q = a.query
        m = int(a.query.gamma or 0) + 1
        say(f"{q.model} on {q.tp} x {q.hardware}, context {q.context:g}, {m} tokens per pass", "bold")
        rows = [
            (
                label,
                size(p.weight_bytes),
                size(p.kv_bytes),
                size(p.activation_bytes),
                seconds(p.predicted_s),
                seconds(draft_s) if draft_s else "-",
                f"{p.tokens:.2f}",
                seconds((p.predicted_s + draft_s) / p.tokens),
            )
            for label, p, draft_s in (
                (f"1 x {m} tokens", a.speculating, a.speculating.draft_s),
                (f"{m} x 1 token", a.batching, 0.0),
            )
        ]
        table(
            (
                "requests",
                "weights",
                "KV",
                Column("activations", spare=1),
                "time",
                "drafting",
                "tokens",
                "time per token",
            ),
            rows,
        )
        say(
            f"Batching moves {a.kv_ratio:.1f} times the KV bytes and {a.bytes_per_pass_ratio:.2f} times "
            f"the bytes of a pass; per token gained, speculation moves {a.bytes_per_token_ratio:.2f} times "
            f"as many and takes {a.seconds_per_token_ratio:.2f} times as long."
        )
        if a.crossover_context is None:
            say("Batching moves fewer bytes per token at every context.")
        else:
            fewer = f"from context {tokens(a.crossover_context)}, without those of the draft"
            say(f"Speculation moves fewer bytes per token {fewer}.")
        if (found := a.apart) is not None:
            ways = [
                (label, f"{each.tokens_per_s:,.0f}", seconds(each.tpot_s), str(each.batch), str(each.gamma))
                for label, each in (
                    ("replicas, no draft", found.replicas),
                    ("replicas with the draft", found.together),
                    ("separate drafter, in turn", found.before),
                    ("separate drafter, overlapped", found.while_verifying),
                )
                if each is not None
            ]
            say(f"With {found.draft_devices} x {found.draft_hardware} in addition:", "bold")
            table(("layout", "tokens/s", "TPOT", "batch", "gamma"), ways)
            if found.while_verifying is None:
                say("Drafting during verification needs --hit and room for one sequence.")
    warn_where([(f"context {a.query.context:g}, gamma {a.query.gamma}", a.warnings) for a in answers])


app = verb(compare, _print, "context", "gamma", example=f"{LLAMA} --context 32k --gamma 3 --alpha 0.8")
