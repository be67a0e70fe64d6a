"""Random questions to `advise`, drawn from a seed, and the lines that it prints for them.

Only lines of engines whose parsers were asked (`flags`).
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from perfmodel.answers.advice.advice import Advice
from perfmodel.answers.advice.advise import advise
from perfmodel.errors import InputError
from tests.engine.flags import vocabularies

QUESTIONS = 60
"""Questions with a printed line."""
CONTEXTS = (1024, 4096, 8192, 32768, 131072)
RATES = ("0.6", "0.7", "0.85", "0.8/0.7/0.5")
MODELS = (
    *("llama-3.1-8b", "llama-3.3-70b", "qwen3-8b", "qwen3-32b", "qwen3-4b", "qwen2.5-72b", "phi-4"),
    *("qwen3-30b-a3b", "qwen3-235b-a22b", "qwen3-coder-30b-a3b", "gpt-oss-20b", "gpt-oss-120b", "minimax-m2"),
    *("deepseek-v3", "deepseek-r1", "deepseek-v3.2", "kimi-k2", "glm-4.5-air", "glm-4.6", "glm-4.7-flash"),
    *(
        "qwen3.5-27b",
        "qwen3.6-27b",
        "qwen3.8-27b",
        "qwen3.5-35b-a3b",
        "qwen3.6-35b-a3b",
        "qwen3-next-80b-a3b",
    ),
    *("gemma-3-27b", "gemma-4-31b", "gemma-4-26b-a4b", "mistral-small-3.2-24b", "llama-4-scout", "mimo-7b"),
)
SERVED_ON = (
    *("h100", "h200", "b200", "b300", "a100", "mi300x", "l40s", "rtx-4090", "rtx-5090", "rtx-pro-6000"),
    *("gh200", "dgx-spark", "rtx-3090", "l4", "h20"),
)
AT_HOME = ("rtx-3090", "rtx-4090", "rtx-5090", "rx-7900-xtx", "m4-max", "m3-ultra", "strix-halo", "rtx-3060")
WEIGHTS = ("fp8", "fp8-block", "int4-g128", "awq-g128", "nvfp4", "mxfp4", "int8")
SMALL_DRAFTS = {"qwen": "qwen3-0.6b", "llama": "llama-3.2-1b"}
"""Family -> a small model of it."""


@dataclass(frozen=True, slots=True)
class Printed:
    """A question, its answer, and one printed line. engine: the engine of the line."""

    question: dict[str, Any]
    advice: Advice
    engine: str
    line: str

    @property
    def gpus(self) -> int:
        """Devices of one server that the question asks about."""
        pick = self.advice.chosen
        assert pick is not None
        return pick.tp

    @property
    def sequence_tokens(self) -> int:
        """Tokens that a sequence of the question has."""
        if "output_len" in self.question:
            return int(self.question["input_len"] + self.question["output_len"])
        return int(self.question["context"])


def drawn(seed: int) -> dict[str, Any]:
    """The question of a seed."""
    choices = random.Random(seed)
    model = choices.choice(MODELS)
    question = {"model": model, "context": choices.choice(CONTEXTS)}
    if choices.random() < 0.2:
        question |= _at_home(choices)
    else:
        question |= _in_a_server(choices, question["context"])
    draft = choices.choice((None, None, "eagle3", "mtp", "ngram", SMALL_DRAFTS.get(model.partition("-")[0])))
    if draft is not None:
        question |= {"draft": [draft], "rate": {draft: choices.choice(RATES)}}
    if draft == "eagle3":
        question["draft_path"] = "some/head"
    return {name: value for name, value in question.items() if value is not None}


def _at_home(choices: random.Random) -> dict[str, Any]:
    """A question to llama.cpp."""
    return {
        "engine": "llamacpp",
        "hardware": choices.choice(AT_HOME),
        "weights": choices.choice(("q4_k_m", "q8_0", "ud-q4_k_xl")),
        "kv_dtype": choices.choice((None, None, "q8_0", "q4_0")),
        "layer_split": choices.choice((1, 1, 2)),
    }


def _in_a_server(choices: random.Random, context: int) -> dict[str, Any]:
    """A question to vLLM or SGLang: a batch, all layouts of some devices, or a load."""
    devices = choices.choice(("tp", "gpus"))
    question = {
        "engine": choices.choice(("vllm", "sglang")),
        "hardware": choices.choice(SERVED_ON),
        "weights": choices.choice((None, None, None, *WEIGHTS)),
        "kv_dtype": choices.choice((None, None, None, "fp8", "int8")),
        devices: choices.choice((1, 2, 4, 8)),
    }
    kind = choices.random()
    if kind < 0.2:
        question["objective"] = "latency"
    elif kind < 0.4:
        load = {"request_rate": choices.choice((0.5, 2, 10)), "input_len": min(context, 2000)}
        question |= load | {"output_len": 300}
    return question


@cache
def printed(questions: int = QUESTIONS) -> tuple[Printed, ...]:
    """The lines of the first questions that have one."""
    lines: list[Printed] = []
    for number, each in enumerate(_answered()):
        if number == questions:
            break
        lines += each
    return tuple(lines)


def _answered() -> Iterator[list[Printed]]:
    """The lines of one question after the other. Questions that are refused, or that nothing fits, have
    none.
    """
    seed = 0
    while True:
        question = drawn(seed)
        seed += 1
        try:
            advice = advise(**question)
        except InputError:
            continue
        if advice.serve is not None and advice.serve.lines:
            lines = advice.serve.lines
            yield [Printed(question, advice, word, lines[word]) for word in lines if word in vocabularies()]
