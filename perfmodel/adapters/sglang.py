"""A predictor for SGLang's simulator (sgl-project/sglang, tools/sglang-simulator).

The simulator runs SGLang's scheduler, radix cache and hierarchical cache on a CPU. A predictor replaces the
forward pass. The simulator gives the predictor a model (a folder with config.json), an accelerator (a name),
the scheduler's configuration, and the options of the configuration file::

    predictor:
      name: perfmodel
      draft: eagle3      # every option of pm.predictor
      gamma: 3

With gamma, the time of a decoding pass is the time of an iteration (drafting and verification). The simulator
itself does not speculate and advances each request by one token per pass. `get_metrics` therefore returns the
expected tokens per iteration.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from perfmodel.answers.point.predictor import predictor
from perfmodel.errors import InputError

IMPOSSIBLE = -1.0
"""Time of a batch that does not fit in memory. The simulator refuses negative times."""
UNMODELLED = ("pp_size", "cp_size")
"""Degrees of the scheduler's configuration that must be 1."""
FORMATS = {"data_type": "weights", "kv_cache_data_type": "kv_dtype"}
"""The argument of a question for each number format in the scheduler's configuration."""


class SGLangPredictor:
    """Predicts the time of a forward pass in seconds (`predict_infer_time`) with ``pm.predictor``.

    - model, accelerator: a name or path, or an object with the attribute `path` or `name`.
    - scheduler: a mapping or an object with `tp_size`, `ep_size`, `dp_size`, `data_type` and so on.
    - options: further arguments of ``pm.predictor``.

    Raises InputError for a configuration that is not modelled.
    """

    def __init__(self, model: Any, accelerator: Any, scheduler: Any, options: Mapping[str, Any]) -> None:
        for name in UNMODELLED:
            if (_of(scheduler, name) or 1) != 1:
                raise InputError(f"{name}: must be 1 (not modelled), given {_of(scheduler, name)}")
        question: dict[str, Any] = {"engine": "sglang"}
        for name in ("tp", "ep", "dp"):
            question[name] = _of(scheduler, f"{name}_size") or 1
        for name, argument in FORMATS.items():
            if (given := _of(scheduler, name)) not in (None, "auto"):
                question[argument] = given
        question |= {name: value for name, value in options.items() if name != "name"}
        names = (_of(model, "path", "name"), _of(accelerator, "name"))
        self.predictor = predictor(*(str(name) for name in names), **question)
        self.reset_metrics()

    def predict_infer_time(self, batch: Any) -> float:
        """The time of a pass over a batch of requests, in seconds. A request's `extend_length` is its number
        of new tokens, and `past_kv_length` its number of cached tokens. Returns `IMPOSSIBLE` if the batch
        does not fit in memory.
        """
        requests: Iterable[Any] = getattr(batch, "requests", batch)
        lengths = np.array([(r.extend_length, r.past_kv_length) for r in requests], float).reshape(-1, 2)
        if lengths.sum() > self.predictor.kv_tokens:
            return IMPOSSIBLE
        seconds = self.predictor.forward_s(lengths[:, 0], lengths[:, 1])
        self._passes += 1
        self._seconds += seconds
        return seconds

    def get_metrics(self) -> dict[str, float]:
        """The number of passes since the last reset, and their total time in seconds. The mapping also has
        the expected tokens per iteration of a request, and the number of tokens that fit in the KV cache.
        """
        return {
            "passes": self._passes,
            "seconds": self._seconds,
            "tokens_per_iteration": float(self.predictor.tokens_per_iteration()),
            "max_total_tokens": self.predictor.kv_tokens,
        }

    def reset_metrics(self) -> None:
        """Sets the number of passes and their total time to 0."""
        self._passes = 0
        self._seconds = 0.0


def _of(info: Any, *names: str) -> Any:
    """The first field among `names` that a mapping or an object has. A plain text is returned unchanged."""
    if isinstance(info, str):
        return info
    fields = info if isinstance(info, Mapping) else {name: getattr(info, name, None) for name in names}
    return next((fields[name] for name in names if fields.get(name) is not None), None)
