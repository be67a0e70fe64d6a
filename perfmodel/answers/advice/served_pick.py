"""Makes a configuration (`Pick`) for the answer of `advise` under a load."""

from dataclasses import replace

from perfmodel.answers.advice.advise_query import AdviseQuery
from perfmodel.answers.advice.picks import Pick, pick_of
from perfmodel.answers.advice.served import Served
from perfmodel.answers.load.traffic_rows import MadeBy
from perfmodel.answers.token_price import dollars_per_million_tokens


def pick_under_load(served: Served, question: AdviseQuery) -> Pick:
    """The configuration of the servers, with the throughput and latencies that `traffic` predicts."""
    row = served.row
    layout = served.candidate.layout
    total = layout.replicas * row.output_tokens_per_s
    per_gpu = total / layout.gpus
    cost = None
    if question.dollars is not None:
        cost = dollars_per_million_tokens(question.dollars, layout.gpus, total)
    worth = {"throughput": per_gpu, "latency": served.tpot_s, "cost": cost or 0.0}
    load_share = None
    if row.saturation_rate:
        load_share = min(row.requests_per_s / row.saturation_rate, 1.0)
    return replace(
        pick_of(served.point, question, served.started_seats),
        throughput_tokens_per_s=row.output_tokens_per_s,
        throughput_tokens_per_s_per_device=per_gpu,
        all_servers_tokens_per_s=total,
        cost_per_million_tokens=cost,
        speedup=served.speedup,
        objective=worth[question.objective],
        ttft_s=None if row.ttft_s is None else row.ttft_s.mean,
        slo_share=row.slo_share,
        load_share=load_share,
        estimated=bool(row.doubts) and row.made_by is MadeBy.CLOSED_FORM,
        tpot_interval=row.tpot_interval,
    )
