"""Command lines of llama.cpp (``llama-server``)."""

import re
import shlex
from collections.abc import Iterator

import numpy as np

from perfmodel.answers.advice.draft_lengths import LengthTable, inside
from perfmodel.answers.advice.gguf_head import UNTESTED, conversion
from perfmodel.answers.advice.servers.base import ServedTarget, Server, Setup, Started, words_of
from perfmodel.answers.question import draft_word
from perfmodel.drafts.base import Draft
from perfmodel.operations import Array
from perfmodel.specs import serving_engines
from perfmodel.specs.models.gguf_names import gguf_repository
from perfmodel.speculation.confidence import Stop

CACHES = {"fp32": "f32"} | {name: name for name in ("q8_0", "q5_1", "q5_0", "iq4_nl", "q4_1", "q4_0")}
"""KV format -> its name in llama.cpp."""
SIXTEEN = ("bf16", "fp16")
"""KV formats that need no flag, because the engine's default is fp16."""
ALL_LAYERS = 999
"""Value of ``-ngl`` that puts all layers of any model on the GPU."""
DEFAULT_LENGTH = 3
"""Default number of tokens that the server drafts."""
HUB_ID = re.compile(r"[\w.-]+/[\w.-]+(?<!\.gguf)")
"""Matches a Hugging Face repository id, but no name of a GGUF file."""
RPC_PORT = 50052
"""Default port of llama.cpp's ``rpc-server`` (recalled)."""
NGRAM = 3
"""Smallest n-gram that an n-gram draft matches."""


class LlamaCpp(Server):
    """llama.cpp. The context of the server (``-c``) is divided among the sequences. The server has one draft
    length for all batch sizes.
    """

    checked = "ggml-org/llama.cpp@0c1e57098"
    serves_files = True
    kv_names = CACHES

    def start(self, setup: Setup, notes: list[str]) -> Started | None:
        """The ``llama-server`` line. The line has no draft if the draft cannot run or does not pay off. The
        reason is then added to `notes`.
        """
        served = setup.target.file
        if served is None:
            return None
        table = setup.table
        slots = table.ranges[-1].high
        tokens = setup.target.sequence_tokens(table, slots) or table.context_high
        if served.kv_dtype not in (*SIXTEEN, *CACHES):
            notes.append(f"llama.cpp has no {served.kv_dtype} KV cache: its line serves fp16")
        cache = CACHES.get(served.kv_dtype)
        values: dict[str, object] = {
            "-hf" if gguf_repository(served.path) else "-m": served.path,
            "-c": tokens * slots,
            "-np": slots,
            "-ngl": ALL_LAYERS if served.gpu_layers is None else served.gpu_layers,
            "--n-cpu-moe": served.cpu_moe or None,
            "-sm": _split(served.tensor_parallel, served.layer_devices),
            "--rpc": ",".join(f"{host}:{RPC_PORT}" for host in _other_hosts(setup.target)) or None,
            "-fa": cache and "on",
            "-ctk": cache,
            "-ctv": cache,
        }
        stop = _stop(setup)
        drafting = _draft(table, setup.draft, stop, setup.draft_path, notes)
        if drafting.get("--spec-draft-p-min") == 0 and table.compares:
            notes.extend(_ideal_stop(setup))
        server = shlex.join(["llama-server", *words_of(values | drafting)])
        file = drafting.get("-md")
        commands = _conversion(setup, file)
        if commands:
            notes.append(UNTESTED)
        elif file is not None:
            notes.append(f"{file} stands for the draft's own GGUF file")
        return Started("\n".join([*commands, server]))

    def other_nodes(self, target: ServedTarget) -> str:
        """See `Server.other_nodes`."""
        hosts = _other_hosts(target)
        runs = f"runs `rpc-server -H 0.0.0.0 -p {RPC_PORT}`"
        if len(hosts) > 1:
            return f"{hosts[0]} to {hosts[-1]} stand for the addresses of the other machines; each {runs}"
        return f"{hosts[0]} stands for the address of the other machine, which {runs}" if hosts else ""


def _other_hosts(target: ServedTarget) -> list[str]:
    """Words that stand for the addresses of the other machines among which the layers are divided."""
    if target.file is None or target.file.layer_devices == 1:
        return []
    return [f"HOST{n}" for n in range(1, target.nodes)]


def _conversion(setup: Setup, file: object) -> list[str]:
    """The commands that write the file of a head, if its repository is known."""
    path = setup.draft_path
    draft = setup.draft
    if not isinstance(file, str) or path is None or not HUB_ID.fullmatch(path) or draft.named_model:
        return []
    target = None if draft_word(draft) == "mtp" else setup.target.model_id
    return conversion(path, file, draft.precision.weights.name, target)


def _split(tensor_parallel: int, layer_devices: int) -> str | None:
    """How the devices share the model; None for one device."""
    if tensor_parallel > 1:
        return "tensor"
    return "layer" if layer_devices > 1 else None


def _stop(setup: Setup) -> Stop:
    """The rule that ends a draft. The rule is a smallest probability of a token if this gains over the best
    constant length, otherwise the constant length.
    """
    table = setup.table
    constant = Stop(1.0, table.best_constant, 0.0)
    file = setup.target.file
    if file is None or file.best_stop is None or draft_word(setup.draft) == "ngram":
        return constant
    return max(constant, file.best_stop(*_loads(table), table.best_constant))


def _ideal_stop(setup: Setup) -> Iterator[str]:
    """A note about the largest gain of an early end of drafts."""
    table = setup.table
    file = setup.target.file
    if file is None or file.ideal_stop is None:
        return
    stop = file.ideal_stop(*_loads(table), table.best_constant)
    most = f"at most {stop.gain * table.constant_speedup:.2f} times the baseline"
    ends = "if each ends before its first wrong token"
    yield f"--spec-draft-p-min above 0 ends doubtful drafts early: {most}, {ends}"


def _loads(table: LengthTable) -> tuple[Array, Array]:
    """The batches and contexts of a table."""
    batches = np.arange(table.ranges[0].low, table.ranges[-1].high + 1.0)
    return batches, inside(table.context_low, table.context_high)


def gguf_name(model_id: str, weights: str | None) -> str:
    """The usual name of a model's GGUF file in this weight format, such as ``Qwen3-32B-Q4_K_M.gguf``."""
    return f"{model_id.rpartition('/')[2]}-{(weights or 'bf16').partition(',')[0].upper()}.gguf"


def _draft(
    table: LengthTable, draft: Draft, stop: Stop, path: str | None, notes: list[str]
) -> dict[str, object]:
    """Flag of the draft -> its value. The result is empty if nothing is drafted; the reason is then added to
    `notes`.
    """
    tokens = stop.longest
    least = stop.least_probability
    known = serving_engines()["llamacpp"].drafts.get(draft_word(draft))
    usual = draft_word(draft) == "ngram" or (tokens, least) == (DEFAULT_LENGTH, 0.0)
    if not usual and len(table.by_constant) > DEFAULT_LENGTH:
        gained = f"{table.by_constant[DEFAULT_LENGTH]:.2f} times the baseline"
        notes.append(f"by default the server drafts {DEFAULT_LENGTH} tokens: {gained}")
    if tokens == 0:
        why = "no draft length gains: leave speculation off" if table.compares else "this line drafts nothing"
        notes.append(f"{why} (--spec-type none)")
        return {}
    if known is None or not draft.kv.reads_all:
        notes.append(f"llama.cpp has no {draft_word(draft)} draft over {draft.kv.label()}")
        return {}
    if len(table.ranges) > 1:
        notes.append(f"llama.cpp takes only one draft length: its line uses the best one, {tokens}")
    if known.method.startswith("ngram"):
        size = f"--spec-{known.method}-size"
        return {"--spec-type": known.method, f"{size}-n": NGRAM, f"{size}-m": tokens}
    if least:
        notes.append(
            f"drafts stop at a token below p-min: {stop.gain * table.constant_speedup:.2f} times the "
            "baseline, if the draft's probabilities are the rates of the file"
        )
    own = None
    if draft_word(draft) == "mtp" and path is None:
        notes.append("the GGUF file must contain the MTP layer; many files leave it out")
    else:
        own = (path or draft.name).rpartition("/")[2].removesuffix(".gguf") + ".gguf"
    return {
        "--spec-type": known.method,
        "-md": own,
        "--spec-draft-n-max": tokens,
        "--spec-draft-p-min": least or 0,
    }
