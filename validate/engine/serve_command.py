"""Translates the command that starts a server into a question about it, and finds options that make the
server slow.
"""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from itertools import pairwise, takewhile

from perfmodel.answers.point.foreign_flags import instead_of
from perfmodel.reading import is_file
from perfmodel.specs import VERSION_SEPARATOR
from perfmodel.validate.engine.programs import ServerCommand
from perfmodel.validate.engine.signs import signs_in
from perfmodel.validate.engine.written_servers import as_command

FLAGS = {
    "--model": "--model",
    "--model-path": "--model",
    "-hf": "--model",
    "--hf-repo": "--model",
    "-m": "--model",
    "--tensor-parallel-size": "--tp",
    "-tp": "--tp",
    "--data-parallel-size": "--dp",
    "--dp-size": "--dp",
    "--dp": "--dp",
    "--ep-size": "--ep",
    "--ep": "--ep",
    "--pipeline-parallel-size": "--pp",
    "--gpu-memory-utilization": "--memory-fraction",
    "--mem-fraction-static": "--memory-fraction",
    "--num-draft-tokens": "--gamma",
    "--draft-model": "--draft",
    "--model-draft": "--draft",
    "-md": "--draft",
    "--spec-draft-model": "--draft",
    "--speculative-draft-model-path": "--draft",
    "--speculative-draft-model": "--draft",
    "--tp-size": "--tp",
    "--tp": "--tp",
    "--quantization": "--weights",
    "--kv-cache-dtype": "--kv-dtype",
    "-ctk": "--kv-dtype",
    "--cache-type-k": "--kv-dtype",
    "--speculative-num-steps": "--gamma",
    "--spec-draft-n-max": "--gamma",
    "--draft-max": "--gamma",
    "--spec-type": "--draft",
    "--speculative-algorithm": "--draft",
    "--n-cpu-moe": "--cpu-moe",
    "-ngl": "--gpu-layers",
    "--n-gpu-layers": "--gpu-layers",
    "--gpu-layers": "--gpu-layers",
    "--attention-backend": "--attention-backend",
    "--max-num-seqs": "--max-num-seqs",
}
"""Flag of a server -> the flag of perfmodel."""
_WINDOWS = re.compile(
    r"""(?<=")[A-Za-z]:\\[^"\n]+(?=")|(?<=')[A-Za-z]:\\[^'\n]+(?=')|(?<!\w)[A-Za-z]:\\[^\s"']+"""
)
"""A path of Windows, which can contain spaces if it is in quotes."""
_NEXT_COMMAND = ("&&", "||", "|", ";", "&")
"""Words of a shell after which another command begins."""
CONFIG = "--speculative-config"
HEADS = ("--speculative-draft-model-path", "--speculative-draft-model")
"""SGLang's flags for a draft head. Without a head, its algorithm EAGLE runs the MTP layers of the model."""
_MIX = re.compile(r"[-.]((?:UD-)?(?:I?Q\d\w*|BF16|F16|MXFP4\w*))\.gguf$", re.I)
"""The format in the name of a GGUF file."""
KINDS = ("--spec-type", "--speculative-algorithm")
"""Flags that name a kind of draft. The other draft flags name a model. If a command has both, the model is
the head of this kind, unless the kind is one of `WHOLE_MODELS`.
"""
WHOLE_MODELS = ("standalone", "draft-simple")
"""Kinds of draft that are a model of their own (SGLang, llama.cpp)."""
DRAFTS = {"nextn": "mtp", "eagle3": "eagle3", "deepseek_mtp": "mtp", "qwen3_next_mtp": "mtp"}
"""An engine's name for a kind of draft -> perfmodel's name, where they differ."""
DEFAULTS = ("auto", "none")
"""Values that have the same meaning as a missing flag."""
TREE = ("--speculative-num-steps", "--speculative-eagle-topk", "--speculative-num-draft-tokens")
"""Flags of SGLang that describe a tree of drafted tokens: levels, children and nodes."""
_CAPTURED = re.compile(r"--cuda-graph-max-bs[= ](\d+)")
SERVED_WHOLE = 99
"""Smallest number of layers on the device that means all layers."""
EXAMPLES = {
    "--host-bandwidth": (
        "80",
        "GB/s of the host's memory (two channels of DDR5-5600 have at most 90)",
    ),
    "--rates": ("0.7,0.1,0.05", "shares of the draft's 1st, 2nd, ... choice that are accepted"),
}
"""Flag of the question whose value no command states -> an example value, and its meaning."""
LEFT_OUT = (
    "--spec-draft-p-min",
    "--draft-p-min",
    "-ot",
    "--override-tensor",
    "-ts",
    "--tensor-split",
    "--split-mode",
    "-sm",
    "--disaggregation-mode",
    "--speculative-disable-by-batch-size",
    "--speculative-adaptive",
)
"""Flags of a server that change the answer but are not in the question. `foreign_flags` says how to ask about
them.
"""


EVERY_QUESTION = {"--engine": "", "--batch": "1", "--context": "8k"}
"""Flags of every question, which are its last ones, and their values if nobody states them."""
NO_FLAGS: Mapping[str, str] = {}


def question_of(text: str, hardware: str = "DEVICE", given: Mapping[str, str] = NO_FLAGS) -> str | None:
    """The command line of a question about a server, translated from the command that starts the server, or
    from its declaration in YAML or Python. None for any other text.

    - given: flags of the question, with their values, that the user gave. They are used where the command
      states no value.
    """
    command = ServerCommand.of(as_command(_WINDOWS.sub(lambda path: path[0].replace("\\", "/"), text)))
    if command is None:
        return None
    try:
        words = shlex.split(command.options.replace("\\\n", " "))
        options = [*takewhile(lambda word: word not in _NEXT_COMMAND, words)]
        return _question(command, options, {"--hardware": hardware}, given)
    except ValueError:  # an open quote, or a configuration that is no JSON
        return None


def _question(
    command: ServerCommand, options: list[str], flags: dict[str, str], given: Mapping[str, str]
) -> str | None:
    """The command line of the question; None for the name of an image without a model. Raises ValueError for
    a configuration that is no JSON.

    - options: the words after the program.
    - flags: the flag of the device.
    - given: see `question_of`.
    """
    has_model = command.program.model_first and options and not options[0].startswith("-")
    if has_model and not options[0].endswith(":"):
        flags |= dict(_file("--model", options[0]))
    flags |= dict(_flags(options))
    flags |= {name: value for name, value in given.items() if name not in {*flags, *EVERY_QUESTION}}
    if ("--gpu-layers" in flags or "--cpu-moe" in flags) and "--host-bandwidth" not in flags:
        flags |= _example("--host-bandwidth")
    flags |= EVERY_QUESTION | {name: given[name] for name in EVERY_QUESTION if name in given}
    flags |= {"--engine": _engine(command, given)}
    if command.program.is_image and "--model" not in flags:
        return None
    verb = "whatif"
    if tree := _tree(options):
        verb = "tree"
        flags.pop("--gamma", None)
        flags |= {"--given": tree} | _example("--rates")
    words = [word for pair in flags.items() for word in pair]
    return shlex.join(["perfmodel", verb, *words])


def _engine(command: ServerCommand, given: Mapping[str, str]) -> str:
    """The engine, with the version that the command or else the user states."""
    engine = command.program.engine
    if command.version:
        return f"{engine}{VERSION_SEPARATOR}{command.version}"
    of_user = given.get("--engine", "")
    return of_user if of_user.partition(VERSION_SEPARATOR)[0] == engine else engine


def slowed_by(text: str) -> list[str]:
    """Reasons in a server's command why the server is slower than predicted, in words."""
    words = [sign.meaning for sign in signs_in(text)]
    for largest in _CAPTURED.findall(text):
        words.append(f"more than {largest} requests run without CUDA graphs (--cuda-graph-max-bs)")
    return words


def to_be_stated(text: str, asked: str) -> list[str]:
    """Notes about the question: values that are only examples, and flags of the server that the question does
    not have.
    """
    words = asked.split()
    examples = [
        f"{flag} {value} is an example: give the {meaning}"
        for flag, (value, meaning) in EXAMPLES.items()
        if (flag, value) in pairwise(words)
    ]
    given = {flag for flag, value in _pairs(as_command(text).split()) if value != "0"}
    missing = [f"{flag} ({instead_of(flag)})" for flag in LEFT_OUT if flag in given]
    return examples + ([f"not in this question: {', '.join(missing)}"] if missing else [])


def _example(flag: str) -> dict[str, str]:
    """The flag with its example value."""
    return {flag: EXAMPLES[flag][0]}


def _tree(options: list[str]) -> str | None:
    """The tree in SGLang's flags, as a value of ``tree --given``; None for a chain of drafted tokens."""
    values = dict(_pairs(options))
    levels, children, nodes = map(values.get, TREE)
    if not (levels and children and nodes) or children == "1":
        return None
    return f"{levels}x{children}x{nodes}"


def _pairs(options: list[str]) -> Iterator[tuple[str, str]]:
    """Each option with its value, which is the next word or follows an equals sign."""
    for word, following in pairwise([*options, ""]):
        name, _, value = word.partition("=")
        yield name.replace("_", "-"), value or following


def _flags(options: list[str]) -> Iterator[tuple[str, str]]:
    """The flags and values of the question that follow from the options of a command."""
    pairs = list(_pairs(options))
    named = {name for name, _ in pairs}
    pairs = [pair for pair in pairs if pair[0] not in KINDS or pair[1].lower() not in WHOLE_MODELS]
    has_kind = any(name in KINDS for name, _ in pairs)
    for flag, value in pairs:
        if flag == CONFIG:
            yield from _of_config(json.loads(value))
        elif flag in FLAGS and value and value.lower() not in DEFAULTS and not _is_whole(flag, value):
            yield from _flag(flag, value, named, has_kind)
    config = {
        flag.removeprefix(f"{CONFIG}."): value for flag, value in pairs if flag.startswith(f"{CONFIG}.")
    }
    yield from _of_config({key.replace("-", "_"): value for key, value in config.items()})


def _flag(flag: str, value: str, named: set[str], has_kind: bool) -> Iterator[tuple[str, str]]:
    """The flag of perfmodel, with its value, for a flag of a server.

    - named: all flags of the command.
    - has_kind: whether one of them names a kind of draft that can have a head.
    """
    here = FLAGS[flag]
    if flag == "--speculative-algorithm" and value.upper() == "EAGLE" and not named & set(HEADS):
        yield here, "mtp"
    elif flag in KINDS:
        yield here, _draft(value)
    elif here == "--model" or (here == "--draft" and not has_kind):
        yield from _file(here, value)
    elif here != "--draft":
        yield here, value


def _file(here: str, value: str) -> Iterator[tuple[str, str]]:
    """The flag of a model, with its value. For a GGUF file that does not exist here, the model and the format
    come from the file's name.
    """
    mix = _MIX.search(value)
    if not value.endswith(".gguf") or mix is None or is_file(value):
        yield here, value
        return
    yield here, value[: mix.start()].rpartition("/")[2]
    if here == "--model":
        yield "--weights", mix[1].lower()


def _is_whole(flag: str, value: str) -> bool:
    """Whether the flag puts all layers on the device."""
    return FLAGS[flag] == "--gpu-layers" and (not value.isdigit() or int(value) >= SERVED_WHOLE)


def _of_config(config: object) -> Iterator[tuple[str, str]]:
    """The flags of the draft and its length in vLLM's ``--speculative-config``."""
    if not isinstance(config, dict) or not config:
        return
    method = str(config.get("method", "draft_model"))
    named = config.get("model")
    yield "--draft", str(named) if method == "draft_model" and named else _draft(method)
    if "num_speculative_tokens" in config:
        yield "--gamma", str(config["num_speculative_tokens"])


def _draft(word: str) -> str:
    """perfmodel's name for a kind of draft of an engine."""
    plain = word.lower().removeprefix("draft-")
    return DRAFTS.get(plain, plain)
