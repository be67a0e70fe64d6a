"""Reads which layers have a sliding window over the last tokens, into fields of ModelSpec."""

from collections.abc import Sequence
from typing import Literal

from perfmodel.specs.boundary.frozen import Frozen, Positive
from perfmodel.specs.huggingface.keys import Fields, Keys
from perfmodel.specs.models.components import MAX_LAYERS, MAX_TOKENS

KINDS = ("full_attention", "sliding_attention")
"""The words of `layer_types` for layers without and with a sliding window."""


def layer_types(keys: Keys, layers: int, kinds: Sequence[str], rule: Sequence[str]) -> list[str]:
    """The kind of each layer, from `layer_types` of the file or else from the family's rule."""
    if (types := keys.data.get("layer_types")) is None:
        return list(rule)
    if not isinstance(types, list) or len(types) != layers or any(t not in kinds for t in types):
        raise keys.bad("layer_types", f"a list of {layers} entries out of {', '.join(kinds)}")
    return types


def sliding_layers(keys: Keys, layers: int, rule: Sequence[bool]) -> int:
    """The number of sliding-window layers, from `layer_types` of the file or else from the family's rule."""
    return layer_types(keys, layers, KINDS, [KINDS[slides] for slides in rule]).count(KINDS[1])


def window_of(window: int | None, sliding: int) -> Fields:
    """The fields of ModelSpec for a window of this number of tokens, and for the number of layers with this
    window.
    """
    return {
        "sliding_window": window if window and sliding else None,
        "num_sliding_layers": sliding if window else 0,
    }


WindowRule = Literal[
    "all", "all_if_stated", "all_unless_named", "every_nth_full", "every_nth_full_if_stated", "named"
]
"""See `Windows`."""


class Windows(Frozen):
    """The rule of a family that determines which layers have a sliding window. The file must state the
    window, or null for no window. The file may leave the window out if the rule is `named` or ends in
    `if_stated`.

    - all: every layer has a window.
    - all_unless_named: every layer has a window, unless `layer_types` lists the layers that have one.
    - named: only the layers that `layer_types` lists have a window.
    - every_nth_full: all layers except every `full_every`-th have a window, unless `layer_types` lists the
      layers that have one. The file may state another period.
    """

    rule: WindowRule
    full_every: Positive | None = None

    def __post_init__(self) -> None:
        if ("nth" in self.rule) != (self.full_every is not None):
            raise ValueError("full_every must be given with every_nth_full, and with nothing else")


def windowed(keys: Keys, layers: int, windows: Windows) -> Fields:
    """The fields for the window and for the number of sliding-window layers."""
    match windows.rule:
        case "named":
            return named_windows(keys, layers)
        case "every_nth_full" | "every_nth_full_if_stated":
            return _slides_but_every(keys, layers, windows)
        case "all_if_stated" if keys.data.get("sliding_window") is None:
            return {}
    window = keys.present_or_null("sliding_window", MAX_TOKENS)
    if windows.rule == "all_unless_named":
        return window_of(window, sliding_layers(keys, layers, [True] * layers))
    return window_of(window, layers)


def _slides_but_every(keys: Keys, layers: int, windows: Windows) -> Fields:
    """The fields for sliding windows in all layers except every n-th. The file may state n as a pattern or as
    a period.
    """
    names = ("sliding_window_pattern", "_sliding_window_pattern")
    name = next((name for name in names if keys.data.get(name) is not None), names[0])
    pattern = keys.data.get(name)
    if pattern and isinstance(pattern, str):
        period = len(pattern)
    else:
        period = keys.integer(name, windows.full_every, high=MAX_LAYERS)
    keys.ignore(*names, "sliding_window_size")
    may_omit = windows.rule == "every_nth_full_if_stated" and keys.data.get("sliding_window") is None
    window = None if may_omit else keys.present_or_null("sliding_window", MAX_TOKENS)
    return window_of(window, sliding_layers(keys, layers, [(i + 1) % period != 0 for i in range(layers)]))


def named_windows(keys: Keys, layers: int) -> Fields:
    """The fields for the layers that have a sliding window according to `layer_types`."""
    window = keys.data.get("sliding_window") and keys.integer("sliding_window", high=MAX_TOKENS)
    keys.ignore("sliding_window", "max_window_layers", "layer_rope_theta", "global_attn_every_n_layers")
    return window_of(window or None, sliding_layers(keys, layers, [False] * layers))
