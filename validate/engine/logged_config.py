"""Reads the configuration of a server from its log, and compares it with the question about the server."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from perfmodel.answers.question import Query

_VERSION = re.compile(r"(?:LLM engine \(v|vLLM API server version )(\d+\.\d+\.\d+)")
_TP = re.compile(r"\b(?:tensor_parallel_size|tp_size)['\"]?[=:]\s*(\d+)")
_QUANTIZATION = re.compile(r"\bquantization['\"]?[=:]\s*['\"]?(\w+)")
_CACHE = re.compile(r"\bkv_cache_dtype['\"]?[=:]\s*['\"]?(\w+)")
_METHOD = re.compile(r"['\"]?(?:method|speculative_algorithm)['\"]?\s*[:=]\s*['\"](\w+)")
_STARTED_WITH = re.compile(
    r"speculative[-_]config[\s=:'\"]*(?:SpeculativeConfig\(|\{)[^\n)}]*?method['\"]?\s*[:=]\s*['\"](?P<of_config>\w+)"
    r"|speculative_algorithm['\"]?[:=]\s*['\"](?P<of_args>\w+)"
    r"|--speculative-algorithm[= ](?P<of_flag>\w+)"
)
"""The kind of draft in the configuration or the command of a server."""
FORMATS = {
    "fp8": "fp8",
    "w8a8_fp8": "fp8",
    "awq": "awq",
    "awq_marlin": "awq",
    "gptq": "gptq",
    "gptq_marlin": "gptq",
    "modelopt_fp4": "nvfp4",
    "mxfp4": "mxfp4",
}
"""Name of a weight format in vLLM or SGLang -> the value of ``--weights``."""


@dataclass(frozen=True, slots=True)
class LoggedConfig:
    """The configuration in a log. A field is None if the log does not print it or its value is not known
    here.

    - version: the version of vLLM.
    - weights: the format of the weights, as a value of `--weights`.
    - method: the engine's name for the kind of draft.
    """

    version: str | None = None
    tp: int | None = None
    weights: str | None = None
    cache: str | None = None
    method: str | None = None

    @classmethod
    def of(cls, text: str) -> "LoggedConfig":
        """The configuration in a log. If several lines state a value, the first one counts."""
        tp = _first(_TP, text)
        quantization = _first(_QUANTIZATION, text) or ""
        cache = _first(_CACHE, text) or ""
        return cls(
            version=_first(_VERSION, text),
            tp=int(tp) if tp else None,
            weights=FORMATS.get(quantization.lower()),
            cache="fp8" if cache.startswith("fp8") else None,
            method=_first(_METHOD, text),
        )

    def differences(self, query: Query, weights: str) -> Iterator[str]:
        """A warning for each difference between the log and the question, with the flag that removes it.

        - weights: the format that the answer assumes.
        """
        if self.tp is not None and self.tp != query.tp:
            yield f"the log has {self.tp} tensor-parallel devices, and {query.tp} was asked: --tp {self.tp}"
        of_parts = [part.rpartition("=")[2] for part in weights.split(",")]
        is_assumed = any(part.startswith(self.weights or "") for part in of_parts)
        if self.weights is not None and not is_assumed and query.weights is None:
            yield f"the log has {self.weights} weights, and {weights} are assumed: --weights {self.weights}"
        if self.cache is not None and query.kv_dtype is None:
            yield f"the log has a KV cache in {self.cache}, and none was asked: --kv-dtype {self.cache}"


def started_draft(text: str) -> str | None:
    """The engine's name for the draft with which a server was started, by its log or its command. None if
    they do not state one.
    """
    stated = _STARTED_WITH.search(text)
    return None if stated is None else next(filter(None, stated.groups()))


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    """The first group of the first match; None if nothing matches."""
    printed = pattern.search(text)
    return None if printed is None else printed[1]
