"""Numbers for people: three or four digits and a unit."""

from perfmodel.costs.pass_time import LIMITERS
from perfmodel.speculation import KVCache

NONE, UNKNOWN = "none", "unknown"
PREFIXES = {"E": 1e18, "P": 1e15, "T": 1e12, "G": 1e9, "M": 1e6, "k": 1e3}


def seconds(value: float | None) -> str:
    """85.2 us, 25.30 ms, 1.20 s, 86,400 s; a word for an unknown time."""
    if value is None:
        return UNKNOWN
    if value < 1e-3:
        return f"{value * 1e6:.1f} us"
    if value < 1:
        return f"{value * 1e3:.2f} ms"
    if value < 1e3:
        return f"{value:.2f} s"
    return f"{value:,.0f} s"


def clients(number: int) -> str:
    """1 client, 8 clients."""
    return f"{number} client{'s' * (number != 1)}"


def size(value: float) -> str:
    """Bytes with a decimal unit."""
    return f"{_prefixed(value)}B"


def count(value: float) -> str:
    """Operations or FLOPs with a decimal prefix."""
    return _prefixed(value).rstrip()


def _prefixed(value: float) -> str:
    for prefix, factor in PREFIXES.items():
        if value >= factor:
            return f"{value / factor:.2f} {prefix}"
    return f"{value:.0f} "


def tokens(value: float | None) -> str:
    """A length in whole tokens, rounded up; a word for an infinite one."""
    if value is None:
        return NONE
    return f"{-int(-value // 1):,}"


def ratio_text(value: float | None) -> str:
    """A speedup: 1.34x; a word for an unknown one."""
    return UNKNOWN if value is None else f"{value:.2f}x"


def devices(hardware: str, tp: float) -> str:
    """The group: ``8 x a100-sxm-80gb``, or one device by its name."""
    if tp > 1:
        return f"{tp:g} x {hardware}"
    return hardware


def limiter(name: str) -> str:
    """The limiter of a pass as one word."""
    return LIMITERS.get(name, name)


def draft_in_words(draft: str, draft_kv: str) -> str:
    """``draft: eagle3, full KV cache``: the model that drafts, and the part of the cache that it reads."""
    name = "the target itself" if draft == "self" else draft
    method = draft_kv.partition(",")[0]
    return f"draft: {name}, {'full KV cache' if method == 'full' else method}"


def kv_cache_text(cache: KVCache) -> str:
    """The caches in the words of a server's log, and what a draft takes from them."""
    each = ""
    if cache.groups > 1:
        each = f" ({cache.kv_tokens // cache.groups:,} in each of {cache.groups} groups)"
    sequences = f"{cache.max_concurrency:.2f}x sequences of {cache.max_model_len:,}"
    text = f"{cache.kv_tokens:,} tokens{each}, {sequences}"
    if cache.kv_tokens == cache.baseline_kv_tokens:
        return text
    taken = {
        "weights": size(cache.draft_weight_bytes) if cache.draft_weight_bytes else "",
        "its cache and states": f"{100 * cache.draft_cache_share:.1f} %" if cache.draft_cache_share else "",
        "graphs": size(cache.draft_reserved_bytes) if cache.draft_reserved_bytes else "",
    }
    parts = ", ".join(f"{name} {value}" for name, value in taken.items() if value)
    share = f"{-100 * cache.draft_share:+.1f} %"
    return f"{text}; {cache.baseline_kv_tokens:,} without the draft ({share}: {parts})"
