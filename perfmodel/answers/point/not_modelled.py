"""Names the features of a server that no answer models (docs/limits.md)."""

NOT_MODELLED = (
    "LoRA adapters",
    "structured output (grammars)",
    "vision and audio encoders",
    "kinds of draft that take turns (MTP, then n-gram)",
    "passes without CUDA graphs (eager mode, batches beyond the captured ones)",
)
_LORA, _GRAMMARS, _ENCODERS, _, _EAGER = NOT_MODELLED
_WORDS = {
    "lora": _LORA,
    "structured": _GRAMMARS,
    "grammar": _GRAMMARS,
    "guided": _GRAMMARS,
    "vision": _ENCODERS,
    "image": _ENCODERS,
    "audio": _ENCODERS,
    "mmproj": _ENCODERS,
    "mm-processor": _ENCODERS,
    "eager": _EAGER,
    "disable-cuda-graph": _EAGER,
}
"""Word in the name of an engine's option -> the feature that the option switches on."""
_INSTEAD = {
    _EAGER: (
        "without this option, the answer is for a server with CUDA graphs; `validate engine --watch LOG` "
        "compares your server with this answer"
    )
}
"""Feature -> what the user can do instead, if there is anything."""


def not_modelled(option: str) -> str | None:
    """A sentence about the feature that an engine's option switches on, if no answer models this feature. The
    sentence may also say what to do instead. The result is None for all other options, such as those that
    size CUDA graphs or switch encoders off (`foreign_flags`).

    - option: the name of the option.
    """
    feature = next((feature for word, feature in _WORDS.items() if word in option), None)
    if feature is None:
        return None
    instead = f"; {_INSTEAD[feature]}" if feature in _INSTEAD else ""
    return f"{feature}: not modelled; a server with them is slower than predicted{instead}"
