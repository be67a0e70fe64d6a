"""The command that starts a server, as the question about it. It has no times that could be judged."""

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise

PROGRAMS = {
    "vllm serve": "vllm",
    "-m sglang.launch_server": "sglang",
    "sglang serve": "sglang",
    "llama-server": "llamacpp",
    "trtllm-serve": "trtllm",
    "mlx_lm.server": "mlx",
}
"""Beginning of a command -> ``--engine``."""
MODEL_FIRST = ("vllm", "trtllm")
"""Engines whose commands name the model without a flag."""
_COMMAND = re.compile(rf"(?P<program>{'|'.join(map(re.escape, PROGRAMS))})\b(?P<options>.*)", re.S)
FLAGS = {
    "--model": "--model",
    "--model-path": "--model",
    "-hf": "--model",
    "-m": "--model",
    "--tensor-parallel-size": "--tp",
    "-tp": "--tp",
    "--tp-size": "--tp",
    "--tp": "--tp",
    "--quantization": "--weights",
    "--kv-cache-dtype": "--kv-dtype",
    "-ctk": "--kv-dtype",
    "--speculative-num-steps": "--gamma",
    "--spec-draft-n-max": "--gamma",
    "--draft-max": "--gamma",
    "--spec-type": "--draft",
    "--speculative-algorithm": "--draft",
    "--n-cpu-moe": "--cpu-moe",
    "-ngl": "--gpu-layers",
    "--attention-backend": "--attention-backend",
    "--max-num-seqs": "--max-num-seqs",
}
"""Flag of a server -> the flag here."""
DRAFTS = {"nextn": "mtp", "eagle3": "eagle3", "deepseek_mtp": "mtp", "qwen3_next_mtp": "mtp"}
"""Word of an engine for a kind of draft -> the kind here, where both differ."""
SERVED_WHOLE = 99
"""Layers of ``-ngl`` from which all are on the device."""


def question_of(text: str) -> str | None:
    """The question about a server, by the command that starts it; None for any other text."""
    command = _COMMAND.search(text)
    if command is None:
        return None
    engine = PROGRAMS[command["program"]]
    with suppress(ValueError):  # an open quote, or a configuration that is no JSON
        options = shlex.split(command["options"].replace("\\\n", " "))
        asked = {"--hardware": "DEVICE"}
        if engine in MODEL_FIRST and options and not options[0].startswith("-"):
            asked["--model"] = options[0]
        asked |= dict(_flags(options))
        asked |= {"--engine": engine, "--batch": "1", "--context": "8k"}
        words = [word for pair in asked.items() for word in pair]
        return shlex.join(["perfmodel", "whatif", *words])
    return None


def _flags(options: list[str]) -> Iterator[tuple[str, str]]:
    """The flags of the question, from the options of a command."""
    for word, following in pairwise([*options, ""]):
        name, _, value = word.partition("=")
        flag = name.replace("_", "-")
        value = value or following
        if flag == "--speculative-config":
            yield from _of_config(json.loads(value))
        elif flag in FLAGS and value and not _is_whole(flag, value):
            here = FLAGS[flag]
            yield here, _draft(value) if here == "--draft" else value


def _is_whole(flag: str, value: str) -> bool:
    """Whether all layers are on the device."""
    return flag == "-ngl" and (not value.isdigit() or int(value) >= SERVED_WHOLE)


def _of_config(config: object) -> Iterator[tuple[str, str]]:
    """The draft of vLLM's ``--speculative-config``."""
    if not isinstance(config, dict):
        return
    method = str(config.get("method", "draft_model"))
    named = config.get("model")
    yield "--draft", str(named) if method == "draft_model" and named else _draft(method)
    if "num_speculative_tokens" in config:
        yield "--gamma", str(config["num_speculative_tokens"])


def _draft(word: str) -> str:
    """The kind of draft here."""
    plain = word.lower().removeprefix("draft-")
    return DRAFTS.get(plain, plain)
