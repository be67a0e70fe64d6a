"""``perfmodel serving``: what a served batch does that one batch, one context and one acceptance leave
out.
"""

from perfmodel.answers.point.serving import Serving, serving
from perfmodel.answers.text import seconds, times
from perfmodel.cli.output import say, table, warn
from perfmodel.cli.verb import verb


def _print(a: Serving) -> None:
    say(f"{a.batch} sequences, gamma {a.gamma}", "bold")
    rows = [
        ("baseline step", seconds(a.target_s), f"{seconds(a.mean_target_s)} all at the mean context"),
        ("speedup", times(a.speedup), f"{times(a.mean_speedup)} all at the mean context"),
        ("", times(a.steady_speedup), "once hard requests hold more of the slots"),
        (
            "tokens per slot and iteration",
            f"{a.tokens:.2f}",
            f"{a.tokens_as_admitted:.2f} averaged over requests",
        ),
    ]
    for name, padded, graph_s, smooth_s in (
        ("baseline step", a.padded_tokens, a.graph_target_s, a.unpadded_target_s),
        ("verification", a.padded_verify, a.graph_verify_s, a.unpadded_verify_s),
    ):
        rows.append(
            (f"{name} in a graph of {padded:.0f}", seconds(graph_s), f"{seconds(smooth_s)} without padding")
        )
    rows.append(("iteration", seconds(a.iteration_s), "all at the mean context"))
    table(("one batch", "as it is", "beside"), rows)
    say(f"calibration {a.calibration}", "dim")
    warn(a.warnings)


app = verb(serving, _print)
