"""Writes numbers with their units for people to read."""

from perfmodel.costs.pass_time import LIMITERS
from perfmodel.speculation import KVCapacity, chance_above_one

NONE = "none"
UNKNOWN = "unknown"
LAST_OF_UNIT = 999.5
"""A time of at least this many units is printed in the next larger unit."""
PREFIXES = {"E": 1e18, "P": 1e15, "T": 1e12, "G": 1e9, "M": 1e6, "k": 1e3}
"""Decimal prefix -> its factor, the largest first."""


class Note(str):
    """A remark among the warnings of an answer. Unlike a warning, it does not make the answer less
    certain.
    """

    __slots__ = ()


def seconds(value: float | None) -> str:
    """Formats a time that is given in seconds, such as ``8.5 us``, ``25 ms``, ``1.2 s`` or ``86,400 s``. None
    becomes ``unknown``.
    """
    if value is None:
        return UNKNOWN
    for unit, factor in (("us", 1e6), ("ms", 1e3)):
        if value * factor < LAST_OF_UNIT:
            return f"{_two_digits(value * factor)} {unit}"
    return f"{_two_digits(value)} s"


def _two_digits(value: float) -> str:
    """A number with two significant digits, or with all digits of its whole part."""
    if value < 0.95:
        return f"{value:.2g}"
    return f"{value:.1f}" if value < 9.95 else f"{value:,.0f}"


def counted(number: int | str, noun: str) -> str:
    """Formats a number with its noun, such as ``1 client``, ``8 clients`` or ``2.5 requests``.

    - noun: the singular of a noun whose plural adds an s.
    - number: a whole number, or a number that is already formatted as text.
    """
    return f"{number} {noun}" if str(number) == "1" else f"{number} {noun}s"


def clients(number: int) -> str:
    """Formats a number of clients, such as ``1 client`` or ``8 clients``."""
    return counted(number, "client")


def request_rate(rate: float, digits: str = "g") -> str:
    """Formats a request rate, such as ``1 request/s`` or ``2.5 requests/s``.

    - digits: the format of the number, as for `format`.
    """
    return f"{counted(format(rate, digits), 'request')}/s"


def size(value: float) -> str:
    """Formats a number of bytes with a decimal unit, such as ``1.5 GB``."""
    return f"{_prefixed(value)}B"


def count(value: float) -> str:
    """Formats a number with a decimal prefix, such as ``1.5 T``."""
    return _prefixed(value).rstrip()


def _prefixed(value: float) -> str:
    """A number with one decimal and its prefix. A number below 1,000 is rounded and has no prefix."""
    for prefix, factor in PREFIXES.items():
        if value >= factor:
            return f"{value / factor:.1f} {prefix}"
    return f"{value:.0f} "


def tokens(value: float | None) -> str:
    """Formats a context length in tokens, rounded up to a whole number. None becomes ``none``."""
    if value is None:
        return NONE
    return f"{-int(-value // 1):,}"


def context_text(value: float) -> str:
    """Formats a context length in tokens, such as ``32768``. A multiple of 1048576 is written as ``1M``."""
    whole = int(value)
    return f"{whole >> 20}M" if whole and whole % 2**20 == 0 else f"{whole}"


def ratio_text(value: float | None) -> str:
    """Formats a speedup, such as ``1.34x``. None becomes ``unknown``."""
    return UNKNOWN if value is None else f"{value:.2f}x"


def range_text(interval: tuple[float, float] | None) -> str:
    """Formats an interval of times as `` (17 ms to 29 ms)``, to be put after its value. None becomes an empty
    text.
    """
    if interval is None:
        return ""
    low, high = interval
    return f" ({seconds(low)} to {seconds(high)})"


def interval_text(interval: tuple[float, float] | None) -> str:
    """Formats the interval of a speedup as `` (1.16 to 2.59)``, to be put after its value. If the interval
    contains 1, the text also has the chance that the speedup is above 1. None becomes an empty text.
    """
    if interval is None:
        return ""
    low, high = interval
    return f" ({low:.2f} to {high:.2f}{chance_text(interval)})"


def chance_text(interval: tuple[float, float]) -> str:
    """The chance that a speedup is above 1, such as ``; chance above 1: 83 %``, to be put after its interval.
    Empty if the interval does not contain 1, because the verdict is then certain.
    """
    low, high = interval
    if not low < 1.0 < high:
        return ""
    return f"; chance above 1: {100.0 * chance_above_one(interval):.0f} %"


def model_and_shape(model: str, shape: str) -> str:
    """A model in words. If another bundled model has its shape, the text also names that model, as in
    ``llama-3.3-70b (shape of llama-3.1-70b)``.
    """
    return model if model == shape else f"{model} (shape of {shape})"


def devices(hardware: str, tp: float) -> str:
    """The devices of a server in words, such as ``8 x a100-sxm-80gb``. For a single device, the text is only
    its name.
    """
    if tp > 1:
        return f"{tp:g} x {hardware}"
    return hardware


def devices_of_stages(hardware: str, tp: int, stages: int) -> str:
    """`devices` of a server with pipeline stages, such as ``2 stages of 8 x h200``."""
    each = devices(hardware, tp)
    return f"{stages} stages of {each}" if stages > 1 else each


def limiter(name: str) -> str:
    """The resource or cost that limits a pass, in words.

    - name: its name in answers.
    """
    return LIMITERS.get(name, name)


def draft_in_words(draft: str, draft_kv: str) -> str:
    """The draft and its KV method in words, such as ``draft: eagle3, full KV cache``."""
    name = "the target itself" if draft == "self" else draft
    method = draft_kv.partition(",")[0]
    return f"draft: {name}, {'full KV cache' if method == 'full' else method}"


def _rounded_down(number: int) -> int:
    """Rounds a number down to three significant digits."""
    unit = 10 ** max(0, len(str(number)) - 3)
    return number // unit * unit


def kv_cache_text(cache: KVCapacity, stack: str) -> str:
    """A sentence with the size of the KV cache, worded like a server's log, and with the share that a draft
    costs.

    - stack: the name of the engine. For vLLM, the sentence says if the server would not start because the
      longest sequence does not fit.
    """
    each = ""
    if cache.groups > 1:
        each = f" ({cache.kv_tokens // cache.groups:,} in each of {cache.groups} groups)"
    held = f"{int(cache.max_concurrency):,}" if cache.max_concurrency >= 1.0 else "less than 1"
    sequences = "sequence" if cache.max_concurrency < 2.0 else "sequences"
    text = f"{cache.kv_tokens:,} tokens{each}, {held} {sequences} of maximum length {cache.max_model_len:,}"
    if cache.fitting_len:
        most = f"{_rounded_down(cache.fitting_len):,}"
        limit = f"at most about {most} tokens fit"
        if stack.startswith("vllm"):
            limit = f"none fits: vLLM starts with --max-model-len up to about {most}"
        text += f" ({limit})"
    if cache.kv_tokens == cache.baseline_kv_tokens:
        return text
    taken = {
        "weights": size(cache.draft_weight_bytes) if cache.draft_weight_bytes else "",
        "cache and states": f"{100 * cache.draft_cache_share:.1f} % per token"
        if cache.draft_cache_share
        else "",
        "CUDA graphs": size(cache.draft_reserved_bytes) if cache.draft_reserved_bytes else "",
    }
    parts = ", ".join(f"{name} {value}" for name, value in taken.items() if value)
    share = f"{100 * cache.draft_share:.1f} %"
    return f"{text}; the draft takes {share} of {cache.baseline_kv_tokens:,} ({parts})"
