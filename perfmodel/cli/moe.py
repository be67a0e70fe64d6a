"""``perfmodel moe``: speculation on a mixture of experts, by batch size."""

from perfmodel.answers.point.moe import ExpertSpeculation, moe
from perfmodel.answers.text import ratio_text
from perfmodel.cli.output import say, table, warn
from perfmodel.cli.verb import verb


def _print(a: ExpertSpeculation) -> None:
    subject = f"{a.model} on {a.tp} x {a.hardware}; draft: {a.draft}"
    say(f"{subject}; context {a.context:g}, gamma {a.gamma}", "bold")
    rows = []
    for r in a.rows:
        experts = (f"{r.experts_decoding:.1f} of {a.experts}", f"{r.experts_verifying:.1f}")
        gain = (f"{r.target_efficiency:.3f}", ratio_text(r.speedup))
        rows.append((str(r.batch), *experts, *gain, "yes" if r.fits else "no"))
    table(("batch", "experts decoding", "verifying", "target efficiency", "speedup", "fits"), rows)
    say(
        f"Speculation pays most at batch {a.peak.batch} (of 1 to {a.rows[-1].batch}): "
        f"{ratio_text(a.peak.speedup)}, an iteration costing {a.peak.iteration_to_target:.2f} baseline "
        "steps."
    )
    say(f"routing independence {a.routing_independence:.3f}; calibration {a.calibration}", "dim")
    warn(a.peak.warnings)


app = verb(
    moe,
    _print,
    example="--model qwen3.5-35b-a3b --hardware h100 --context 4k --gamma 3 --draft mtp --alpha 0.8",
)
