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
        at = release(version)
        return release(self.since or "0.0") <= at and (self.until is None or at < release(self.until))


class LargeSeats(Frozen):
    """The default on devices with much memory, from a version on. but: word in the names of devices that
    never get it.
    """

    seats: Positive
    from_bytes: Annotated[float, Meta(gt=0)]
    since: str
    but: Annotated[str, Meta(min_length=1)]

    def hold(self, version: str, gpu: GPUSpec) -> bool:
        """Whether a version has it on a device; an empty version is the newest."""
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
        if self.large is not None and self.large.hold(version, gpu):
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
    """One engine. constants_of: the engine whose fitted constants it borrows, if none were fitted for it.

    programs: names of programs that run this engine. newest: version of these facts. makers: of the devices
    that it supports. drafts: kind of draft -> its name and releases. withhold_features: architectures
    (``model_type``) whose model gives a head no hidden states of its inner layers. sparse: what is known of
    a draft with a view of the cache that the engine does not have. prefix: blocks of its prefix cache.
    seats: None if its default is unknown. scheduler: None if prompts and decoding share passes.
    reserved_output: None if a request enters with room for its prompt. drafted_slots: None if it holds two
    for each.
    prompt_graphs: None if every kernel of a prompt is launched by itself. defects: known problems.
    attention: its backends; None if they are unknown. kernel_tables: its folder in the tables of
    ``aiconfigurator-core``. weight_only: whether formats without a peak on the device run weight-only.
    untimed_prompts: what is known of the time of its prompts, if none were fitted: its TTFT then has no
    interval. heads_of_prompts: whether the LM heads of target and draft run over whole prompts with a draft
    that starts from the target's features. host: how its processor runs layers; None if it runs none.
    wide_mxfp4: whether MXFP4 experts run on 16-bit activations on every device. tuned_experts: experts
    whose kernels the engine chooses itself, without the cost of default flags.
    int4_experts: the first version with fast kernels for experts in 4-bit integers. int4_experts_on: makers
    of the devices that have these kernels; empty for all. awq: the first version with fast kernels for AWQ;
    empty if no version without them is known. attention_groups: the first version whose flag for
    data-parallel attention counts its groups, if it replaced another flag. conversion: the kind of file to
    which it converts checkpoints; None if it serves them as they are. calibrations: version from which on ->
    the word in the names of its calibrations, if kernels changed between versions. row_kernels: its kernels
    for a few rows. own_kernel: one that replaces some of these in a fork. cuts_heads: whether tensor
    parallelism gives each device whole KV heads and whole blocks of scaled weights. divides_layers: whether
    devices, or a device and the host, can share a model by layers and run in turn. runs_groups: whether a
    server can have groups of data-parallel attention or of whole experts. slots: sequences that its
    server decodes at once by default; None if its room decides. one_person: whether it usually serves one
    person. no_bf16_on: architectures, by their first words, on which it must be told to compute in FP16.
    drafts_read_verified: whether a draft reads the verified tokens in a pass of its own.
    """

    constants_of: str | None = None
    programs: tuple[str, ...] = ()
    newest: Text
    source: Text
    makers: tuple[str, ...]
    drafts: dict[str, ServedDraft]
    withhold_features: tuple[str, ...] = ()
    sparse: Text = "no flag is known for one"
    prefix: PrefixBlocks
    dynamic: DynamicMode | None = None
    seats: Seats | None = None
    scheduler: Scheduler | None = None
    reserved_output: ReservedOutput | None = None
    drafted_slots: DraftedSlots | None = None
    prompt_graphs: PromptGraphs | None = None
    untimed_prompts: str = ""
    heads_of_prompts: bool = False
    host: HostPasses | None = None
    defects: tuple[Defect, ...] = ()
    attention: EngineAttention | None = None
    kernel_tables: str = ""
    cuts_heads: bool = False
    divides_layers: bool = False
    runs_groups: bool = True
    slots: Annotated[int, Meta(ge=1)] | None = None
    one_person: bool = False
    no_bf16_on: tuple[str, ...] = ()
    drafts_read_verified: bool = False
    weight_only: bool = False
    wide_mxfp4: bool = False
    tuned_experts: tuple[TunedExperts, ...] = ()
    int4_experts: str = ""
    awq: str = ""
    int4_experts_on: tuple[str, ...] = ()
    attention_groups: str = ""
    conversion: Literal["gguf", "mlx"] | None = None
    calibrations: dict[str, str] = field(default_factory=dict)
    row_kernels: RowKernels | None = None
    own_kernel: OwnKernel | None = None

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
    given = "its file names no other engine" if lender is None else f"nor has {lender}, which its file names"
    raise InputError(
        f"--engine: {word} has no fitted constants ({given}): to answer with those of another engine, "
        f"hardware/{FOLDER}/{word}.yaml must name it, constants_of: one of {', '.join(fitted)}"
    )
