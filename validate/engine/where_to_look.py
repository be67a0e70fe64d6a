"""For each engine, reasons why a server can be slow that the given text may not show, and the log lines that
would show these reasons.
"""

from typing import NamedTuple

OF_ALL = "a power or clock limit, other programs on the device, another format than was asked"


class Unseen(NamedTuple):
    """Reasons that a text may not show.

    - step: reasons if all steps are slow.
    - draft: reasons if only steps with a draft are slow.
    - shown_by: a pattern for grep that finds the log lines about these reasons; empty if there are none.
    """

    step: str
    draft: str
    shown_by: str


ENGINES = {
    "vllm": Unseen(
        "a batch outside the captured sizes, fewer threads of the host, a fallback of the attention, "
        "all-reduce over PCIe",
        "a verification outside the captured CUDA graphs, attention that reads the cache once for each "
        "token, a draft that the host launches, asynchronous scheduling off with a draft, prompts of "
        "other requests",
        "enforce_eager|cudagraph|backend|scheduling|preempt|fallback|falling back",
    ),
    "sglang": Unseen(
        "a batch outside the captured sizes, a fallback of the attention, all-reduce over PCIe",
        "a verification outside the captured CUDA graphs, a draft that the host launches, the overlap of "
        "host and device off with a draft, fewer requests at once, prompts of other requests",
        "cuda.graph|attention_backend|overlap|is reset|retract|fallback",
    ),
    "trtllm": Unseen(
        "a batch outside the captured sizes, a fallback of the attention, all-reduce over PCIe",
        "a verification outside the captured CUDA graphs, a draft that the host launches, the overlap of "
        "host and device off with a draft, prompts of other requests",
        "cuda_graph|overlap_scheduler|attn_backend",
    ),
    "llamacpp": Unseen(
        "layers or experts on the host, flash attention off",
        "the draft or its cache on the host, experts on the host (each verified token reads others), drafts "
        "that stop early, prompts of other requests",
        "offloaded|buffer size|flash_attn|overridden|CUDA graphs|not supported|no usable GPU",
    ),
    "mlx": Unseen(
        "memory that is swapped, a hot machine without a fan",
        "kernels that read the weights again for every verified token, a draft that waits for the host",
        "",
    ),
}
"""Engine -> its possible reasons."""
OTHER = Unseen(
    "layers or experts on the host, a fallback of the attention",
    "a verification that reads weights or cache once for each token, a draft that the host launches, prompts "
    "of other requests",
    "",
)


def unseen(stack: str, *, of_the_draft: bool) -> str:
    """The possible reasons for an engine, and how to find them in its log.

    - stack: the engine as a calibration names it.
    - of_the_draft: whether only steps with a draft are slow.
    """
    engine = stack.partition(" ")[0]
    known = ENGINES.get("mlx" if engine.startswith("mlx") else engine, OTHER)
    reasons = known.draft if of_the_draft else f"{known.step}, {OF_ALL}"
    if not known.shown_by:
        return reasons
    return f"{reasons}; its log from the start shows more of them: grep -iE '{known.shown_by}' LOG"
