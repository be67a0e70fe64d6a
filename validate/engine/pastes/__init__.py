"""Printed text of engines and their clients, as people paste it. Each form is one file, found by name in this
folder.
"""

from functools import cache

from perfmodel.plugins import class_in, names_in
from perfmodel.validate.engine.pastes.base import PromptTiming, TextForm

__all__ = ["PromptTiming", "TextForm", "form_of", "text_forms"]


@cache
def text_forms() -> tuple[TextForm, ...]:
    """All known forms."""
    forms = []
    for name in names_in(__path__):
        if not name.startswith("_"):
            forms.append(class_in(f"{__name__}.{name}", TextForm)())  # type: ignore[type-abstract]
    return tuple(forms)


def form_of(text: str) -> TextForm | None:
    """The form of a text; None for JSON, counters and anything unknown."""
    return next((form for form in text_forms() if form.has(text)), None)
