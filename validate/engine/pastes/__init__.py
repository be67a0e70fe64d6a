"""Reads text that engines and their clients print, or that people write about their speed. Each format is a
module of this folder, which the program finds by itself.
"""

from functools import cache

from perfmodel.plugins import class_in, names_in
from perfmodel.validate.engine.pastes.base import PromptTiming, TextForm

__all__ = ["PromptTiming", "TextForm", "form_of", "text_forms"]


@cache
def text_forms() -> tuple[TextForm, ...]:
    """All known formats of printed text."""
    forms = []
    for name in names_in(__path__):
        if not name.startswith("_"):
            forms.append(class_in(f"{__name__}.{name}", TextForm)())  # type: ignore[type-abstract]
    return tuple(forms)


def form_of(text: str) -> TextForm | None:
    """The format of a printed text; None for JSON, counters and unknown text."""
    return next((form for form in text_forms() if form.has(text)), None)
