"""The reasons why a row of ``results/published/public_runs.csv`` is left out of the errors."""

from enum import StrEnum


class Reason(StrEnum):
    """A reason, as the column ``left_out`` of the table states it."""

    PREFILL = "prefill inside the times"
    BURSTS = "requests arrive in bursts"
    RAMPS = "ramps inside the times"
    NOT_CLOSED = "not a closed loop"
    QUEUE = "requests queue"
    OVERLOAD = "the server is overloaded"
    MANY_CLIENTS = "more than 512 clients"
    FAILURES = "requests failed"
    SEVERAL_TURNS = "several turns"
    SEVERAL_NODES = "several nodes"
    PASS_ALONE = "a pass alone"
    SERVED = "counted as a served run"
    FROM_LATENCY = "TPOT derived from latency"
    NO_ACCEPTANCE = "no accepted length"
    NO_BASELINE = "no baseline"
    NO_GRAPHS = "no CUDA graphs"
    NO_MARLIN = "int4 without Marlin"
    NO_DEGREE = "tensor parallel degree not stated"
    NO_WEIGHTS = "weights not stated"
    UNKNOWN_WEIGHTS = "weight format not known here"
    UNKNOWN_MODEL = "model not known here"
    FORK = "a fork of the engine"
    PATCHED = "a patched engine"
    VULKAN = "Vulkan without kernels for bf16"
    CONTRADICTION = "contradicts itself"
    DEVICE = "device not sure"
    OPTION = "a special option"
    SECOND_HAND = "second hand"
    FEW_SAMPLES = "too few samples"

    @property
    def is_judgement(self) -> bool:
        """Whether the reason is a judgement. Somebody else could keep such a row, so it still counts in the
        coverage of intervals.
        """
        return self in JUDGEMENTS


JUDGEMENTS = (Reason.CONTRADICTION, Reason.DEVICE, Reason.OPTION, Reason.SECOND_HAND, Reason.FEW_SAMPLES)
