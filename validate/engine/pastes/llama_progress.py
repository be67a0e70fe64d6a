"""The lines that llama.cpp's server prints while it reads a prompt and while it decodes, before the times of
the request: ``prompt processing progress, n_tokens = 2048, ...`` and ``n_decoded = 100, tg = 38.62 t/s``.
"""

import re

from perfmodel.errors import InputError, refuse
from perfmodel.validate.engine.formats.fields import step
from perfmodel.validate.engine.pastes.base import PromptTiming, TextForm, number
from perfmodel.validate.engine.timing import GivenFacts, RequestLengths, Timing, needed, speculation

_PROMPT = re.compile(
    r"(?:task +(?P<task>\d+) \| +)?prompt (?:processing(?: progress)?|done), n_tokens = *(?P<tokens>\d+)"
    r"(?:[^\n]*?\bt = *(?P<seconds>[\d.]+) s\b)?"
)
_DECODED = re.compile(
    r"(?:task +(?P<task>\d+) \| +)?n_decoded = *(?P<tokens>\d+), +"
    r"tg = *(?P<rate>[\d.]+) (?:t/s|tokens per second)"
)
_TIMES = re.compile(r"\beval time\s*=")
"""The times of a finished request, which `llama_server_log` reads."""


class LlamaProgress(TextForm):
    """A step is the last line about decoding of each request, because its speed is a mean since the first
    token. The lines count no accepted tokens.
    """

    title = "progress in a log of llama.cpp's server"
    engine = "llamacpp"
    counts_drafts = False

    def has(self, text: str) -> bool:
        """See `TextForm.has`."""
        return not _TIMES.search(text) and bool(_DECODED.search(text) or _PROMPT.search(text))

    def read(self, where: str, text: str, facts: GivenFacts) -> list[Timing]:
        """See `TextForm.read`."""
        last = {line["task"]: line for line in _DECODED.finditer(text)}
        if not last and not self.prompts(where, text):
            raise InputError(
                f"{where}: has the progress of a prompt without its time: add the lines 'eval time' that the "
                "server prints at the end of the answer"
            )
        prompts = {line["task"]: number(where, "n_tokens", line["tokens"]) for line in _PROMPT.finditer(text)}
        steps = []
        for task, line in last.items():
            rate = number(where, "tg", line["rate"])
            if not rate:
                raise refuse(where, "tg", "above 0", line["rate"])
            prompt = needed(where, "input", facts.input or prompts.get(task))
            lengths = RequestLengths(prompt, number(where, "n_decoded", line["tokens"]))
            drafted = speculation(where, facts, None, None)
            seconds = drafted.tokens_per_iteration / rate
            how = "decoding time over iterations"
            steps.append(step(where, seconds, facts.batch or 1.0, lengths, drafted, how=how))
        return steps

    def prompts(self, where: str, text: str) -> list[PromptTiming]:
        """See `TextForm.prompts`. The last line of a prompt has the time since its start."""
        last = {line["task"]: line for line in _PROMPT.finditer(text) if line["seconds"]}
        timed = []
        for line in last.values():
            seconds = number(where, "t", line["seconds"])
            if seconds:
                timed.append(PromptTiming(number(where, "n_tokens", line["tokens"]), 0.0, seconds))
        return timed
