"""StreamingLLM: the draft reads attention sinks and a sliding window."""

from perfmodel.kv.base import NOTHING, KVLayout, KVMethod, Step, gather
from perfmodel.operations import Floats


class StreamingLLM(KVMethod):
    """Reads the first `sinks` tokens and the latest (budget - sinks) tokens.

    - sinks: the default of 4 is from Xiao et al. 2023.
    - copy: whether a ring buffer holds the tokens. Otherwise, the draft reads the target's cache through an
      index.
    - own_prefill: whether the draft processes the prompt itself, as in the publication. If so, its keys and
      values come from passes that only attend to its window, with positions inside the cache, and this
      prefill fills the ring buffer. Otherwise, the draft reads the keys and values of the full prefill, at
      their positions in the text.
    """

    source = "Xiao et al. 2023, arXiv 2309.17453"
    example = "streamingllm:512"
    aliases = ("streaming", "stream", "sink")

    budget: int
    sinks: int = 4
    copy: bool = True
    own_prefill: bool = False

    def __post_init__(self) -> None:
        self.check("sinks", self.sinks >= 0, "0 or more tokens")
        self.check_budget(above=self.sinks)
        self.check("copy", self.copy or not self.own_prefill, "true where own_prefill=true")

    @property
    def needs_own_prefill(self) -> bool:
        """Whether the draft processes the prompt itself (`own_prefill`)."""
        return self.own_prefill

    def setup(self, context: Floats, layout: KVLayout) -> Step:
        """Copies sinks and window into the ring buffer. There is no work without a copy, or if the draft's
        own prefill fills the buffer.
        """
        if self.own_prefill or not self.copy:
            return NOTHING
        return gather(self.attended_tokens(context), layout).times(self.beyond_budget(context))

    def stored_bytes(self, context: Floats, layout: KVLayout) -> Floats:
        """Bytes of the ring buffer, if the draft has one. With `own_prefill`, a ring buffer exists at every
        context.
        """
        if self.own_prefill:
            return self.read_bytes(context, layout)
        if self.copy:
            return self.read_bytes(context, layout) * self.beyond_budget(context)
        return 0.0

    def own_bytes(self, context: Floats, layout: KVLayout) -> Floats:
        """Bytes of the ring buffer only."""
        return self.read_bytes(context, layout)
