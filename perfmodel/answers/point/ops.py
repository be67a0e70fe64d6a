"""Lists the operations of one pass on one device, with their FLOPs, bytes, times and limiters."""

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass

from perfmodel.answers.answer import Answer
from perfmodel.answers.declaration import argument, asks, question
from perfmodel.answers.question import Query, Shown, acceptances_of, doubts, length_of, resolve, resolve_costs
from perfmodel.answers.text import devices_of_stages, limiter, model_and_shape, seconds
from perfmodel.costs.operation import Op
from perfmodel.costs.pass_time import PassTime
from perfmodel.costs.roofline import Machine
from perfmodel.errors import InputError
from perfmodel.specs.models.variants import asked_name
from perfmodel.speculation import Workload, check_draft_length

STAGES = ("target", "draft", "verify")


@question
class OpsQuery(Query):
    """The arguments of `whatif`, and one for the pass to list."""

    _: KW_ONLY
    stage: str = argument(
        "Pass to list: a baseline step (target), a draft step (draft) or a verification (verify).",
        also="--pass",
        choices=STAGES,
        default="target",
    )

    def check(self) -> None:
        super().check()
        if self.power_limit is not None:
            raise InputError("--power-limit: must be left out of ops; whatif has the times under a limit")


@dataclass(frozen=True, slots=True)
class OpRow:
    """One operation of a pass, summed over all layers. Bytes and FLOPs are those of one device.

    - kernels: number of kernel launches.
    - message_bytes: bytes of one message between devices.
    - lower_s: the roofline's lower bound on its time, in seconds.
    - limiter: the resource or cost that takes most of its time.
    """

    name: str
    kind: str
    kernels: float
    flops: float
    weight_bytes: float
    kv_bytes: float
    activation_bytes: float
    message_bytes: float
    flops_per_byte: float | None
    lower_s: float
    predicted_s: float
    limiter: str


@dataclass(frozen=True, repr=False)
class Ops(Answer):
    """The answer of `ops`: the operations of one pass.

    - query_tokens: number of new tokens per sequence.
    - model, shape: the model of the pass, and the bundled model whose shape it has.
    - tp, pp: the devices of a pipeline stage, and the number of stages. A draft has one stage.
    - total: the time of the whole pass.
    """

    stage: str
    query_tokens: float
    model: str
    shape: str
    hardware: str
    tp: int
    pp: int
    batch: float
    context: float
    ops: tuple[OpRow, ...]
    total: PassTime[float]
    warnings: tuple[str, ...]

    def headline(self) -> str:
        where = devices_of_stages(self.hardware, self.tp, self.pp)
        return (
            f"{self.stage} pass of {model_and_shape(self.model, self.shape)} on {where}: "
            f"{len(self.ops)} operations, {seconds(self.total.predicted_s)}, "
            f"limited by {limiter(self.total.limiter)}"
        )


@asks(OpsQuery)
def ops(query: OpsQuery) -> Ops:
    """List every operation of one pass on one device, with its FLOPs, bytes, FLOPs per byte, time and
    limiter.
    """
    workload = Workload.of(query.batch, query.context)
    batch = float(workload.batch)
    context = float(workload.context)
    sought = query.stage == "verify" and query.gamma is None
    # the cost of a pass does not depend on the acceptance, which is looked up only for the best gamma
    scenario = resolve(query) if sought or acceptances_of(query) else resolve_costs(query)
    gamma = length_of(query, scenario) if sought else query.gamma or 0
    check_draft_length(scenario.draft, gamma)
    tokens = gamma + 1.0 if query.stage == "verify" else 1.0
    if query.stage == "draft":
        tokens = float(scenario.draft.query(max(gamma, 1.0)))
        model = scenario.draft.model
        machine = scenario.draft_machine
        listed = scenario.draft_ops(batch, context, tokens)
    else:
        model = scenario.target
        machine = scenario.machine
        listed = scenario.target_ops(batch, context, tokens)
    verified = 0 if query.stage == "target" else max(gamma, 1)
    shown = Shown(draft=query.stage == "draft", acceptance=False, interval=False)
    return Ops(
        stage=query.stage,
        query_tokens=tokens,
        model=asked_name(query.model, model) if query.stage != "draft" else model.name,
        shape=model.name,
        hardware=machine.gpu.label,
        tp=machine.tensor_parallel,
        pp=1 if query.stage == "draft" else query.pp,
        batch=query.batch,
        context=query.context,
        ops=tuple(_rows(machine, listed, batch * tokens)),
        total=machine.time(listed, batch * tokens).at(),
        warnings=doubts(query, scenario, batch, context, verified, shown=shown),
    )


def _rows(machine: Machine, listed: list[Op], tokens: float) -> Iterator[OpRow]:
    """One row for each operation, and one for each cost outside the operations. The sum of the predicted
    times is the time of the pass.
    """
    for op in listed:
        if op.kind != "host":
            yield _row(machine, op)
    outside = machine.outside_ops_s(tokens)
    outside |= {op.name: machine.time(listed, tokens).terms_s["host"] for op in listed if op.kind == "host"}
    for name, taken in outside.items():
        if taken:
            yield _outside(name, float(taken), "fixed" if name in machine.outside_ops_s(tokens) else "host")


def _outside(name: str, taken_s: float, limit: str) -> OpRow:
    """A cost of a pass without bytes and FLOPs."""
    return OpRow(
        name=name,
        kind="pass",
        kernels=0.0,
        flops=0.0,
        weight_bytes=0.0,
        kv_bytes=0.0,
        activation_bytes=0.0,
        message_bytes=0.0,
        flops_per_byte=None,
        lower_s=0.0,
        predicted_s=taken_s,
        limiter=limit,
    )


def _row(machine: Machine, op: Op) -> OpRow:
    """The counts of an op, its roofline bound and its predicted time."""
    c = op.cost
    moved = float(c.bytes)
    intensity = float(c.flops) / moved if moved else None
    return OpRow(
        name=op.name,
        kind=op.kind,
        kernels=float(op.kernels),
        flops=float(c.flops),
        weight_bytes=float(c.weight_bytes),
        kv_bytes=float(c.kv_bytes),
        activation_bytes=float(c.activation_bytes),
        message_bytes=float(op.sent_bytes),
        flops_per_byte=intensity,
        lower_s=float(op.lower_s(machine)),
        predicted_s=float(machine.op_predicted_s(op)),
        limiter=machine.op_limiter(op),
    )
