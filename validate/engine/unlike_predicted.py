"""Finds signs in a log that a server does not run as predicted: it uses another attention backend, or the
batch is larger than its CUDA graphs.
"""

import re
from collections.abc import Iterator, Sequence

from perfmodel.answers.point.whatif_answer import WhatIf
from perfmodel.specs import VERSION_SEPARATOR, serving_engines
from perfmodel.specs.engines.backends import attention_of
from perfmodel.validate.engine.logged_config import LoggedConfig
from perfmodel.validate.engine.signs import Half, Sign

_CAPTURED_TOKENS = re.compile(
    r"max_(?:cudagraph_)?capture_size\W+(\d+)|cudagraph_capture_sizes\W+([\d, ]+)\]"
)
"""The sizes of CUDA graphs in a log of vLLM, in tokens of a pass."""
_CAPTURED_REQUESTS = re.compile(r"cuda[-_]graph[-_]max[-_]bs\W+\d+")
"""The largest CUDA graph in a log of SGLang, in requests."""
_SEATS = re.compile(r"max[_-]num[_-]seqs['\"]?[=: ]\s*(\d+)")
"""The largest number of requests that a server of vLLM runs at once."""
_BACKEND = re.compile(
    r"Using (?:AttentionBackendEnum\.)?([A-Z][A-Z0-9_]+) (?:attention )?backend"
    r"|Use (\w+) (?:attention )?backend by default|\battention_backend=['\"](\w+)['\"]"
)
"""The attention backend in a log of vLLM or SGLang."""
_OLDER_NAMES = {
    "Flash Attention": ("FLASH_ATTN", "ROCM_AITER_FA"),
    "FlashInfer": ("FLASHINFER",),
    "FlexAttention": ("FLEX_ATTENTION",),
    "Triton": ("TRITON_ATTN",),
    "Triton Attention": ("TRITON_ATTN",),
    "XFormers": ("XFORMERS",),
    "Cutlass MLA": ("CUTLASS_MLA",),
    "FlashMLA": ("FLASHMLA",),
    "Triton MLA": ("TRITON_MLA",),
    "AITER MLA": ("ROCM_AITER_MLA",),
}
"""Name of a backend in a log of vLLM 0.8 to 0.11 -> the words that it can stand for (vLLM 0.11,
``platforms/cuda.py`` and ``platforms/rocm.py``).
"""
_OLDER = re.compile(rf"Using ({'|'.join(sorted(_OLDER_NAMES, reverse=True))}) backend\b")
_FALLBACKS = ("FLEX_ATTENTION", "XFORMERS", "TORCH_SDPA")
"""Backends of vLLM that no prediction assumes. They have general kernels for shapes that other backends
cannot run.
"""
_FLASH = "flash-attn"
_FLASH_VERSION = re.compile(r"Using FlashAttention version (\d)")


def unlike_predicted(text: str, predicted: WhatIf) -> Iterator[Sign]:
    """All signs in a log that the server does not run as predicted."""
    yield from _outside_captured(text, predicted)
    yield from _other_flash_version(text, predicted)
    yield from _other_backend(text, predicted)


def _outside_captured(text: str, predicted: WhatIf) -> Iterator[Sign]:
    """A sign if the running batch is larger than the largest captured graph, in tokens (vLLM) or requests
    (SGLang).
    """
    requests = predicted.query.batch
    tokens = requests * ((predicted.query.gamma or 0) + 1)
    if not _CAPTURED_TOKENS.search(text):
        yield from _larger_than_usual(text, predicted, tokens)
    yield from _larger_than_captured(text, _CAPTURED_TOKENS, tokens, "tokens")
    yield from _larger_than_captured(text, _CAPTURED_REQUESTS, requests, "requests")


def _larger_than_usual(text: str, predicted: WhatIf, tokens: int) -> Iterator[Sign]:
    """A sign if an iteration has more tokens than the largest graph that the engine captures by default for
    the requests that the log allows at once.
    """
    engine = serving_engines().get(predicted.calibration.stack.partition(" ")[0])
    seats = _SEATS.search(text)
    if engine is None or seats is None:
        return
    version = (
        (predicted.query.engine or "").partition(VERSION_SEPARATOR)[2] or LoggedConfig.of(text).version or ""
    )
    rule = next((rule for rule in engine.captured_graphs if rule.of_version(version)), None)
    if rule is None:
        return
    largest = rule.largest(int(seats[1]), (predicted.query.gamma or 0) + 1)
    if tokens > largest:
        meaning = (
            f"an iteration has {tokens} tokens, and the largest CUDA graph that is captured by default for "
            f"{seats[1]} requests at once {largest}"
        )
        yield Sign(_SEATS, Half.STEP, meaning)


def _larger_than_captured(text: str, captured: re.Pattern[str], count: int, unit: str) -> Iterator[Sign]:
    """A sign if an iteration has more tokens or requests than every graph that the log states."""
    sizes = [int(size) for line in captured.finditer(text) for size in re.findall(r"\d+", line[0])]
    if sizes and count > max(sizes):
        meaning = f"an iteration has {count} {unit}, and the largest captured CUDA graph {max(sizes)}"
        yield Sign(captured, Half.STEP, meaning)


def _other_flash_version(text: str, predicted: WhatIf) -> Iterator[Sign]:
    """A sign if FlashAttention runs in another version than the predicted one."""
    expected = predicted.query.attention_backend
    printed = _FLASH_VERSION.search(text)
    if printed is None or expected is None or not expected.startswith(_FLASH):
        return
    backend = f"{_FLASH}{printed[1]}"
    if backend != expected:
        yield _runs_on(backend, expected, "--attention-backend", _FLASH_VERSION)


def _other_backend(text: str, predicted: WhatIf) -> Iterator[Sign]:
    """A sign if attention runs on another backend than the predicted one. Words that do not name a backend of
    the engine are ignored.
    """
    expected = predicted.query.attention_backend
    attention = attention_of(predicted.calibration.stack)
    backends = _printed_backends(text)
    if expected is None or attention is None:
        return
    known = [*(of_engine.word for of_engine in attention.backends.values()), *_FALLBACKS]
    predicted_backend = attention.backends[expected]
    expected_word = predicted_backend.word or expected
    if any(backend in known for backend in backends) and expected_word not in backends:
        switch = predicted_backend.environment or "--attention-backend"
        yield _runs_on(backends[0], expected_word, switch, _BACKEND)


def _printed_backends(text: str) -> Sequence[str]:
    """The words for which the name of the backend in a log can stand; empty if a log names none."""
    if older := _OLDER.search(text):
        return _OLDER_NAMES[older[1]]
    printed = _BACKEND.search(text)
    return () if printed is None else [word for word in printed.groups() if word]


def _runs_on(backend: str, expected: str, switch: str, pattern: re.Pattern[str]) -> Sign:
    """The sign that attention runs on another backend.

    - switch: the flag or variable that selects the predicted one.
    """
    meaning = f"attention runs on {backend}, and {expected} was predicted ({switch})"
    return Sign(pattern, Half.STEP, meaning)
