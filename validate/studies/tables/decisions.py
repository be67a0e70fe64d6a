"""The table of decisions: how often a verdict was right, and what a predicted draft length loses."""

from perfmodel.specs import LLAMACPP
from perfmodel.validate.studies.decisions import NEAR
from perfmodel.validate.studies.parameters import ENGINES
from perfmodel.validate.studies.tables.cells import VERDICT, Record, Rows, percent, right_of_all


def decide(record: Record) -> Rows:
    """The errors behind decisions."""
    yield ["decision", "held out"]
    public = record["sources"]["side"]
    wrong = f"certain but wrong: {public['sure_and_wrong']} of {public['sure']}"
    yield [f"public runs: {VERDICT}", f"{right_of_all(public)}; {wrong}"]
    for engine, side in record["engines"]["sides"]["seen"].items():
        if engine != "all":
            wrong = f"certain but wrong: {side['sure_and_wrong']}"
            yield [f"{ENGINES[engine]}: {VERDICT}", f"{right_of_all(side)}; {wrong}"]
    research = record["replays"]["held-out"]["side_of_one"]
    yield [f"research stacks: {VERDICT}", right_of_all(research)]
    gamma = record["gamma_optimal"]["held-out"]
    lost = f"{percent(gamma['regret_mean'])} %, worst {percent(gamma['regret_worst'])} %"
    yield ["speedup lost with the predicted best γ (eight A100)", lost]
    best_length = record["sources"]["best_length"]
    yield ["throughput lost with the predicted best γ (serving engines)", _lost(best_length["engines"])]
    yield ["throughput lost with the predicted best γ (llama.cpp)", _lost(best_length[LLAMACPP])]


def _lost(sweeps: Record) -> str:
    """The throughput lost with the predicted best draft length, over sweeps of lengths."""
    lost = f"{percent(sweeps['lost'])} %, worst {percent(sweeps['worst'], 0)} %"
    near = f"in {sweeps['near']} of {sweeps['sweeps']} sweeps (as shipped {sweeps['near_shipped']})"
    return f"{lost}; at most {percent(NEAR, 0)} % {near}"
