"""Which engine printed a log or a page of metrics."""

from perfmodel.validate.engine.acceptance import counts_drafts
from perfmodel.validate.engine.load_lines import has_sglang_lines
from perfmodel.validate.engine.pastes import form_of

_WORDS = {"llama.cpp": "llamacpp"}
"""Name of an engine in `counts_drafts` -> its name in ``--engine``, if they differ."""


def printed_by(text: str) -> str:
    """The engine's name in ``--engine``; empty if the text does not show the engine."""
    form = form_of(text)
    if form is not None and form.engine:
        return form.engine
    if counted := counts_drafts(text):
        return _WORDS.get(counted, counted)
    if "vllm:" in text:
        return "vllm"
    return "sglang" if "sglang:" in text or has_sglang_lines(text) else ""
