"""A roofline model of LLM speculative decoding with sparse-KV drafts."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perfmodel.answers.frames import read_frame, to_frame, write_frame

__all__ = ["read_frame", "to_frame", "write_frame"]


def __getattr__(name: str) -> Any:
    """What `__all__` names, loaded when it is asked for: importing this package stays light."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from perfmodel.answers import frames

    return getattr(frames, name)
