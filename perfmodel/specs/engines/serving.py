"""The public facts of an engine: the keys of ``hardware/engines/<word>.yaml``."""

from typing import Annotated, Literal

from msgspec import Meta, field

from perfmodel.specs.boundary.frozen import Frozen, Positive, Share, Text
from perfmodel.specs.devices.gpu import GPUSpec
from perfmodel.specs.engines.attention import EngineAttention
from perfmodel.specs.engines.engines import BUILD, release
from perfmodel.specs.engines.prompt_graphs import PromptGraphs
from perfmodel.specs.engines.row_kernels import OwnKernel, RowKernels
from perfmodel.specs.engines.served_drafts import Defect, DynamicMode, ServedDraft
from perfmodel.specs.engines.served_requests import (
    CapturedGraphs,
    DraftedSlots,
    PrefixBlocks,
    ReservedOutput,
    Scheduler,
    Seats,
    StatePool,
)
from perfmodel.specs.engines.tuned_experts import TunedExperts

LAST = 1000
"""The default position of a stack in lists."""


class HostPasses(Frozen):
    """The speed of layers and experts that the host's processor runs.

    - reach: share of the host's memory bandwidth that the processor reaches.
    - token_share: time of each further token in a pass over layers, divided by the time of the first token.
    - most_tokens: number of tokens from which the weights are copied to the device instead.
    """

    reach: Share
    token_share: Annotated[float, Meta(ge=0, le=1)]
    most_tokens: Annotated[int, Meta(ge=1)]
    source: Text


class Unseen(Frozen):
    """Conditions that can make a server slower, but that do not appear in the text that a user pastes.

    - step: conditions that make every step slower.
    - draft: conditions that make only drafting slower. They matter if steps without a draft are as fast as
      predicted.
    - shown_by: a pattern for grep that finds the lines of a log that name such conditions. It is empty if a
      log has no such lines.
    """

    step: Text
    draft: Text
    shown_by: str = ""


class Stack(Frozen):
    """The fields that every file of a stack has.

    - order: position of the stack in lists. By default, it comes after all stacks that state a position.
    """

    title: Text
    order: Positive = LAST


class ResearchStack(Stack):
    """A research stack, which does not serve requests.

    - calibrations: the word in the names of the stack's calibrations, if it differs from the stack's own
      word.
    - attention: the attention backends of the stack. It is None if they are unknown.
    """

    research: Literal[True]
    calibrations: str = ""
    attention: EngineAttention | None = None


class ServingEngine(Stack):
    """The facts about one serving engine: its versions, drafts, requests, prompts, layouts, kernels and
    formats.
    """

    # what it is
    constants_of: str | None = None
    """The engine whose fitted constants this engine borrows, if none were fitted for it."""
    programs: tuple[str, ...] = ()
    """Names of programs that run this engine."""
    newest: Text
    """The newest version that these facts describe."""
    source: Text
    makers: tuple[str, ...]
    """Makers of the devices that the engine supports."""
    calibrations: dict[str, str] = field(default_factory=dict)
    """The word in the names of the engine's calibrations, by first version, if kernels changed between
    versions.
    """
    conversion: Literal["gguf", "mlx"] | None = None
    """The kind of file to which the engine converts checkpoints. It is None if the engine serves checkpoints
    as they are.
    """
    one_person: bool = False
    """Whether the engine usually serves one person."""

    # its drafts
    drafts: dict[str, ServedDraft]
    """The name and the releases of each kind of draft."""
    withhold_features: tuple[str, ...] = ()
    """Architectures (``model_type``) whose model gives a head no hidden states of its inner layers."""
    sparse: Text = "no flag is known for one"
    """Text about a draft with a KV method that the engine does not support."""
    dynamic: DynamicMode | None = None
    """The engine's mode in which the draft length depends on the batch size. It is None if there is no such
    mode.
    """
    drafts_read_verified: bool = False
    """Whether a draft reads the verified tokens in a separate pass."""
    defects: tuple[Defect, ...] = ()
    """Known defects of the engine."""

    # its requests
    seats: Seats | None = None
    """Default number of concurrent requests. It is None if it is unknown."""
    slots: Annotated[int, Meta(ge=1)] | None = None
    """Number of sequences that its server decodes at once by default. It is None if memory determines the
    number.
    """
    scheduler: Scheduler | None = None
    """The order of passes. It is None if prompts and decoding share passes."""
    reserved_output: ReservedOutput | None = None
    """The cache memory that is kept free for output. It is None if a request only needs room for its
    prompt.
    """
    drafted_slots: DraftedSlots | None = None
    """The cache tokens that a request holds for each drafted token. It is None if there are two of them."""
    states: StatePool | None = None
    """The storage of recurrent states. It is None if the engine has no flag for them."""
    prefix: PrefixBlocks
    """Blocks of the engine's prefix cache."""

    # its prompts
    prompt_graphs: PromptGraphs | None = None
    """The passes over prompts that run as CUDA graphs. It is None if every kernel of a prompt is launched
    separately.
    """
    untimed_prompts: str = ""
    """The known facts about the time of prompts, as text, if too few prompt times were measured for an
    interval of TTFT.
    """
    heads_of_prompts: bool = False
    """Whether the LM heads of target and draft run over whole prompts with a draft that starts from the
    target's features."""

    # its layouts
    cuts_heads: bool = False
    """Whether tensor parallelism gives each device whole KV heads and whole blocks of scaled weights."""
    gathers_logits: bool = False
    """Whether each device gets the logits of the whole vocabulary."""
    divides_layers: bool = False
    """Whether devices, or a device and the host, can share a model by layers and run one after another."""
    runs_groups: bool = True
    """Whether a server can have groups of data-parallel attention or of whole experts."""
    group_per_device: bool = False
    """Whether, with data-parallel attention, every device of a server is its own group."""
    attention_groups: str = ""
    """The first version whose flag for data-parallel attention counts its groups, if it replaced another
    flag."""
    host: HostPasses | None = None
    """How the host's processor runs layers. It is None if the processor runs no layers."""

    # its health
    captured_graphs: tuple[CapturedGraphs, ...] = ()
    """The rules for the largest CUDA graph, by version. Versions that were not read have no rule."""
    unseen: Unseen | None = None
    """Conditions that can slow a server without a message. It is None if they are unknown."""

    # its kernels and formats
    draft_quantization: str = ""
    """The first version with a flag for the format to which a draft is quantised on load, if it needs one."""
    attention: EngineAttention | None = None
    """The attention backends of the engine. It is None if they are unknown."""
    kernel_tables: str = ""
    """Name of the engine's folder in the tables of ``aiconfigurator-core``."""
    row_kernels: RowKernels | None = None
    """The engine's kernels for a few rows."""
    own_kernel: OwnKernel | None = None
    """A kernel that replaces some of `row_kernels` in a fork."""
    weight_only: bool = False
    """Whether formats without a peak on the device run weight-only."""
    no_bf16_on: tuple[str, ...] = ()
    """First words of the architectures on which the engine needs a flag to compute in FP16."""
    wide_mxfp4: bool = False
    """Whether MXFP4 experts run on 16-bit activations on every device."""
    tuned_experts: tuple[TunedExperts, ...] = ()
    """Experts whose kernels the engine chooses itself, without the cost of default flags."""
    int4_experts: str = ""
    """The first version with fast kernels for experts in 4-bit integers."""
    int4_experts_on: tuple[str, ...] = ()
    """Makers of the devices that have the kernels of `int4_experts`. It is empty if all devices have them."""
    unread_owners: tuple[str, ...] = ()
    """Owners of repositories in a format that the engine does not load."""
    unread_formats: tuple[str, ...] = ()
    """Formats of listed checkpoints that the engine does not load in the form in which their tools wrote
    them.
    """
    reads_instead: Text = ""
    """The checkpoints of `unread_formats` that the engine does load, in words."""
    awq: str = ""
    """The first version with fast kernels for AWQ. It is empty if no version without them is known."""

    def tunes_experts(self, form: str, architecture: str, gpu: GPUSpec, version: str) -> bool:
        """Whether the engine itself chooses the expert kernels for a format, a model type and a device. The
        constant `expert_layer_s` does not apply to such experts.
        """
        return any(case.fits(form, architecture, gpu, version) for case in self.tuned_experts)

    def has_groups(self, groups: int, devices: int) -> bool:
        """Whether the engine divides a server of `devices` devices into this number of attention groups."""
        return not self.group_per_device or groups in (1, devices)

    def reads(self, repository: str, weights: str) -> bool:
        """Whether the engine loads a listed checkpoint with this weight format."""
        return repository.partition("/")[0] not in self.unread_owners and weights not in self.unread_formats

    def calibration_word(self, version: str) -> str:
        """The word in the names of the calibrations for a version. The result is empty if the names contain
        the engine's own word.
        """
        known = sorted(self.calibrations, key=release)
        reached = [first for first in known if not version or release(first) <= release(version)]
        return self.calibrations[reached[-1]] if reached else ""

    @property
    def numbers_builds(self) -> bool:
        """Whether the engine's versions are build numbers, such as ``b10451``."""
        return BUILD.fullmatch(self.newest) is not None
