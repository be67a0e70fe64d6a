"""The command that starts a server, as the question about it. It has no times that could be judged."""

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import suppress

_COMMAND = re.compile(
    r"(?:vllm serve|-m sglang\.launch_server|sglang serve|llama-server|trtllm-serve|mlx_lm\.server)\b.*", re.S
)
ENGINES = {"vllm": "vllm", "sglang": "sglang", "llama": "llamacpp", "trtllm": "trtllm", "mlx": "mlx"}
"""Beginning of a command -> ``--engine``."""
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
    started = _COMMAND.search(text)
    if started is None:
        return None
    with suppress(ValueError):  # an open quote
        words = shlex.split(started[0].replace("\\\n", " "))
        asked = dict(_flags(words))
        engine = next(engine for word, engine in ENGINES.items() if word in started[0][:24])
        asked = {"--hardware": "DEVICE"} | asked | {"--engine": engine, "--batch": "1", "--context": "8k"}
        words = [word for pair in asked.items() for word in pair]
        return shlex.join(["perfmodel", "whatif", *words])
    return None


def _flags(words: list[str]) -> Iterator[tuple[str, str]]:
    """The flags of the question, from the words of a command."""
    before = {"vllm": 2, "trtllm-serve": 1}.get(words[0])
    if before is not None and len(words) > before:
        yield "--model", words[before]
    for word, following in zip(words, [*words[1:], ""], strict=True):
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
