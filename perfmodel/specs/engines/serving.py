"""What people know of an engine, from ``hardware/engines/<word>.yaml``: drafts by version, attention
backends, defaults and defects. A new engine is a new file.
"""

import re
from enum import StrEnum
from functools import cache
from typing import Annotated, Literal

from msgspec import Meta, field

from perfmodel.errors import InputError
from perfmodel.reading import read_text
from perfmodel.specs.boundary import files
from perfmodel.specs.boundary.frozen import Frozen, Positive, Share, Text
from perfmodel.specs.boundary.strict_yaml import read_yaml
from perfmodel.specs.devices.gpu import GPUSpec
from perfmodel.specs.engines.attention import EngineAttention
from perfmodel.specs.engines.engines import BUILD, engines, release, since
from perfmodel.specs.engines.prompt_graphs import PromptGraphs
from perfmodel.specs.engines.row_kernels import OwnKernel, RowKernels
from perfmodel.specs.engines.tuned_experts import TunedExperts

FOLDER = "engines"
LAST = 1000
_HEAD = re.compile(r"^(?:title|order): .*", re.MULTILINE)


class ServedDraft(Frozen):
    """A kind of draft in one engine: its name there, and the releases that have it.

    windows: KV methods of the draft in addition to the whole cache, from `windows_since` on. trees_since: the
    first release that verifies trees of it, except for the architectures `trees_without`. without:
    architectures (``model_type``) for which the engine has no such draft. vocabulary_difference: by how many
    entries the vocabulary of a draft model may differ from the target's; None if any difference is allowed.
    """

    method: str
    since: str
    until: str | None = None
    windows: tuple[str, ...] = ()
    windows_since: str | None = None
    trees_since: str | None = None
    trees_without: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    vocabulary_difference: Annotated[int, Meta(ge=0)] | None = None


class DynamicMode(Frozen):
    """A draft length by batch size. price: share of the single-stream speed that this mode costs."""

    price: Annotated[float, Meta(ge=0, lt=1)]
    since: str
    source: str


class Defect(Frozen):
    """A known problem with drafts in one engine. thread: its report. effect: what it does, as a clause.

    It affects the listed kinds of draft, architectures (by their first word), attention backend, targets with
    recurrent layers or routed experts, contexts from a length on, and versions from `since` to before
    `until`; with `assumed` only a question that names no attention backend; with `uneven` only verifications
    of a number of tokens a sequence that no power of two is. An omitted field is no condition.
    slows: whether a draft may become slower than the baseline, so that no verdict says that it surely pays.
    """

    thread: Text
    effect: Text
    drafts: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()
    backend: str | None = None
    recurrent: bool = False
    experts: bool = False
    context_from: Annotated[int, Meta(ge=0)] = 0
    since: str | None = None
    until: str | None = None
    slows: bool = False
    assumed: bool = False
    uneven: bool = False

    def of_version(self, version: str) -> bool:
        """Whether a release has the defect."""
        number = release(version)
        is_fixed = self.until is not None and number >= release(self.until)
        return release(self.since or "0.0") <= number and not is_fixed


class LargeSeats(Frozen):
    """The default number of concurrent requests on devices with much memory, from a version on.

    but: word in the names of devices that never get it.
    """

    seats: Positive
    from_bytes: Annotated[float, Meta(gt=0)]
    since: str
    but: Annotated[str, Meta(min_length=1)]

    def apply(self, version: str, gpu: GPUSpec) -> bool:
        """Whether a version has this default on a device; an empty version is the newest."""
        is_large = gpu.memory is not None and gpu.memory_bytes >= self.from_bytes
        is_new = not version or release(version) >= release(self.since)
        return is_large and is_new and self.but not in gpu.name


class Seats(Frozen):
    """Default number of concurrent requests of an engine. large: another default of some devices. drafting:
    of all groups of a server that drafts, if that is another number.
    """

    usual: Positive
    large: LargeSeats | None = None
    drafting: Positive | None = None
    source: Text

    def of(self, version: str, gpu: GPUSpec) -> int:
        """The number on one device without a draft. version: empty for the newest."""
        if self.large is not None and self.large.apply(version, gpu):
            return self.large.seats
        return self.usual


class PassOrder(StrEnum):
    """How prompts and decoding requests share the passes of a server.

    mixed: a pass runs all decoding requests and as many prompt tokens as its budget leaves. alternating:
    prompts have passes of their own, each followed by one that decodes. prompts_first: prompts have passes
    of their own, and nothing decodes until all that fit are read.
    """

    MIXED = "mixed"
    ALTERNATING = "alternating"
    PROMPTS_FIRST = "prompts_first"


class Scheduler(Frozen):
    """An engine's order of passes: version from which on it is the default -> order."""

    passes: dict[str, PassOrder]
    source: Text

    def order(self, version: str) -> PassOrder:
        """The default of a version; of the newest if it is empty."""
        return since(self.passes, version)


class DraftedSlots(Frozen):
    """Tokens of cache that a running request holds for each token that it drafts: version from which on ->
    their number.
    """

    tokens: dict[str, Annotated[int, Meta(ge=0)]]
    source: Text

    def of(self, version: str) -> int:
        """The number of a version; of the newest if it is empty."""
        return since(self.tokens, version)


class ReservedOutput(Frozen):
    """Room for tokens still to come that an engine keeps free when a request enters. share: of the tokens
    that running requests have still to produce; the new request's own output counts whole. most: the share
    with the most conservative setting.
    """

    share: Share
    most: Share
    source: Text

    def at(self, conservativeness: float) -> float:
        """The share with a setting that multiplies the default one."""
        return min(conservativeness * self.share, self.most)


class HostPasses(Frozen):
    """Layers and experts that the host's processor runs. reach: share of the host's bandwidth that it reads
    with. token_share: time of each further token of a pass over layers, in times of the first. most_tokens:
    tokens from which on the weights are moved to the device.
    """

    reach: Share
    token_share: Annotated[float, Meta(ge=0, le=1)]
    most_tokens: Annotated[int, Meta(ge=1)]
    source: Text


class PrefixBlocks(Frozen):
    """Blocks of an engine's prefix cache. block: tokens of one.

    drops: whether the last block of each hit is computed again for a draft that starts from the target's
    hidden states (`Draft.starts_from_features`). keeps: the option that prevents this. raised: whether a
    model with recurrent layers gets larger blocks, such that the page of an attention layer holds one
    recurrent state. latent: `block` of such a model, at least, if its attention layers are MLA.
    """

    block: Annotated[int, Meta(ge=1)]
    source: Text
    drops: bool = False
    keeps: str = ""
    raised: bool = False
    latent: Annotated[int, Meta(ge=1)] = 1


class Stack(Frozen):
    """What every file states. order: position in lists; by default after all that state one."""

    title: Text
    order: Positive = LAST


class ResearchStack(Stack):
    """A stack without users: it serves no requests. calibrations: the word in the names of its calibrations,
    if it differs from the stack's. attention: its kernels; None if they are unknown.
    """

    research: Literal[True]
    calibrations: str = ""
    attention: EngineAttention | None = None


class ServingEngine(Stack):
    """One engine: what it is, its drafts, requests, prompts, layouts, and its kernels and formats."""

    # what it is
    constants_of: str | None = None
    """The engine whose fitted constants it borrows, if none were fitted for it."""
    programs: tuple[str, ...] = ()
    """Names of programs that run this engine."""
    newest: Text
    """Version of these facts."""
    source: Text
    makers: tuple[str, ...]
    """Of the devices that it supports."""
    calibrations: dict[str, str] = field(default_factory=dict)
    """Version from which on -> the word in the names of its calibrations, if kernels changed between
    versions."""
    conversion: Literal["gguf", "mlx"] | None = None
    """The kind of file to which it converts checkpoints; None if it serves them as they are."""
    one_person: bool = False
    """Whether it usually serves one person."""

    # its drafts
    drafts: dict[str, ServedDraft]
    """Kind of draft -> its name and releases."""
    withhold_features: tuple[str, ...] = ()
    """Architectures (``model_type``) whose model gives a head no hidden states of its inner layers."""
    sparse: Text = "no flag is known for one"
    """What is known of a draft with a view of the cache that the engine does not have."""
    dynamic: DynamicMode | None = None
    """Its draft length by batch size; None if it has none."""
    drafts_read_verified: bool = False
    """Whether a draft reads the verified tokens in a pass of its own."""
    defects: tuple[Defect, ...] = ()
    """Known problems."""

    # its requests
    seats: Seats | None = None
    """Default number of concurrent requests; None if it is unknown."""
    slots: Annotated[int, Meta(ge=1)] | None = None
    """Sequences that its server decodes at once by default; None if its room decides."""
    scheduler: Scheduler | None = None
    """None if prompts and decoding share passes."""
    reserved_output: ReservedOutput | None = None
    """None if a request enters with room for its prompt."""
    drafted_slots: DraftedSlots | None = None
    """None if it holds two for each drafted token."""
    prefix: PrefixBlocks
    """Blocks of its prefix cache."""

    # its prompts
    prompt_graphs: PromptGraphs | None = None
    """None if every kernel of a prompt is launched by itself."""
    untimed_prompts: str = ""
    """What is known of the time of its prompts, if none were fitted: its TTFT then has no interval."""
    heads_of_prompts: bool = False
    """Whether the LM heads of target and draft run over whole prompts with a draft that starts from the
    target's features."""

    # its layouts
    cuts_heads: bool = False
    """Whether tensor parallelism gives each device whole KV heads and whole blocks of scaled weights."""
    divides_layers: bool = False
    """Whether devices, or a device and the host, can share a model by layers and run in turn."""
    runs_groups: bool = True
    """Whether a server can have groups of data-parallel attention or of whole experts."""
    attention_groups: str = ""
    """The first version whose flag for data-parallel attention counts its groups, if it replaced another
    flag."""
    host: HostPasses | None = None
    """How its processor runs layers; None if it runs none."""

    # its kernels and formats
    draft_quantization: str = ""
    """The first version with a flag for the format to which a draft is quantised on load, if it needs one."""
    attention: EngineAttention | None = None
    """Its backends; None if they are unknown."""
    kernel_tables: str = ""
    """Its folder in the tables of ``aiconfigurator-core``."""
    row_kernels: RowKernels | None = None
    """Its kernels for a few rows."""
    own_kernel: OwnKernel | None = None
    """One that replaces some of `row_kernels` in a fork."""
    weight_only: bool = False
    """Whether formats without a peak on the device run weight-only."""
    no_bf16_on: tuple[str, ...] = ()
    """Architectures, by their first words, on which it must be told to compute in FP16."""
    wide_mxfp4: bool = False
    """Whether MXFP4 experts run on 16-bit activations on every device."""
    tuned_experts: tuple[TunedExperts, ...] = ()
    """Experts whose kernels the engine chooses itself, without the cost of default flags."""
    int4_experts: str = ""
    """The first version with fast kernels for experts in 4-bit integers."""
    int4_experts_on: tuple[str, ...] = ()
    """Makers of the devices that have the kernels of `int4_experts`; empty for all."""
    awq: str = ""
    """The first version with fast kernels for AWQ; empty if no version without them is known."""

    def tunes_experts(self, form: str, architecture: str, gpu: GPUSpec, version: str) -> bool:
        """Whether experts in a format, of a model on a device, have no cost of default flags."""
        return any(case.fits(form, architecture, gpu, version) for case in self.tuned_experts)

    def calibration_word(self, version: str) -> str:
        """The word in the names of the calibrations of a version; empty for the engine's own."""
        known = sorted(self.calibrations, key=release)
        reached = [first for first in known if not version or release(first) <= release(version)]
        return self.calibrations[reached[-1]] if reached else ""

    @property
    def numbers_builds(self) -> bool:
        """Whether its versions are builds, ``b10451``."""
        return BUILD.fullmatch(self.newest) is not None


@cache
def stack_titles() -> dict[str, str]:
    """Word of ``--engine`` -> title, in the order of lists.

    Only two lines of each file are parsed, because a command line's help needs no more.
    """
    folder = files.data_directory(FOLDER)
    stacks = {}
    for word in files.bundled_names(FOLDER):
        lines = _HEAD.findall(read_text(folder / f"{word}.yaml", files.MAX_FILE_BYTES))
        stacks[word] = read_yaml("\n".join(lines)) or {}
    ordered = sorted(stacks, key=lambda word: stacks[word].get("order", LAST))
    return {word: stacks[word].get("title", word) for word in ordered}


@cache
def stack_files() -> dict[str, ServingEngine | ResearchStack]:
    """Word of ``--engine`` -> its file, in the order of lists."""
    stacks = {word: _read(word) for word in files.bundled_names(FOLDER)}
    return dict(sorted(stacks.items(), key=lambda item: item[1].order))


def _read(word: str) -> ServingEngine | ResearchStack:
    """The file of a word of ``--engine``. Raises InputError naming file and key."""
    path = files.data_directory(FOLDER) / f"{word}.yaml"
    data = files.read_mapping(path)
    if "research" in data:
        return files.parse(ResearchStack, data, str(path))
    return files.parse(ServingEngine, data, str(path))


def untimed_prompts(word: str | None) -> str:
    """What is known of the time of an engine's prompts, if none were fitted; empty if some were, or without
    an engine.
    """
    engine = serving_engines().get(word or "")
    return "" if engine is None else engine.untimed_prompts


@cache
def programs() -> dict[str, str]:
    """Name of each program that runs an engine -> the engine's word."""
    return {name: word for word, engine in serving_engines().items() for name in engine.programs}


@cache
def serving_engines() -> dict[str, ServingEngine]:
    """Word of ``--engine`` -> what is known of it, in the order of lists; without research stacks."""
    return {word: stack for word, stack in stack_files().items() if isinstance(stack, ServingEngine)}


def lender_of(word: str) -> str | None:
    """The engine whose fitted constants an engine uses: itself, or the one that its file names; None for a
    research stack.

    Raises InputError for a serving engine that has no constants and borrows none.
    """
    fitted = engines().engines
    if word in fitted:
        return word
    if word not in serving_engines():
        return None
    lender = serving_engines()[word].constants_of
    if lender in fitted:
        return lender
    reason = "its file names no other engine" if lender is None else f"nor has {lender}, which its file names"
    raise InputError(
        f"--engine: {word} has no fitted constants ({reason}): to answer with those of another engine, "
        f"hardware/{FOLDER}/{word}.yaml must name it, constants_of: one of {', '.join(fitted)}"
    )
