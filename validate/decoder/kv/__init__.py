"""The views through which drafts read the KV cache, one file per KV method. Each file runs the method of the
same name in `perfmodel.kv`.
"""

from functools import cache
from importlib import import_module

from perfmodel.errors import InputError
from perfmodel.kv import KVMethod
from perfmodel.plugins import names_in
from perfmodel.validate.decoder.kv.base import View
from perfmodel.validate.decoder.runner import Runner

__all__ = ["View", "every_method", "names", "view", "view_class"]

LEAST_BUDGET = 64
"""Smallest budget in `every_method`, in tokens."""


@cache
def names() -> tuple[str, ...]:
    """The names of all KV methods that have a view, sorted."""
    return names_in(__path__)


def every_method(context: int, gamma: int, own_prefill: bool = True) -> tuple[str, ...]:
    """All KV methods that a draft model can run, as values of ``--draft-kv``. Their budget is an eighth of
    the context, but at least `LEAST_BUDGET` and eight times the draft length.

    - context: the context, in tokens.
    - gamma: the draft length.
    - own_prefill: whether to include the published form of StreamingLLM, which cannot run with sliding layers
      or fp8 caches.
    """
    budget = max(context // 8, LEAST_BUDGET, 8 * gamma)
    spelled = {"full": "full", "retrieval": f"retrieval:{budget},every=8", "quantized": "quantized,bits=4"}
    each = (spelled.get(name, f"{name}:{budget}") for name in names())
    if own_prefill:
        return (*each, f"streamingllm:{budget},own_prefill=true")
    return tuple(each)


def view_class(method: KVMethod) -> type[View]:
    """The class of views that runs a method. Raises InputError for a method that can only be predicted."""
    if method.name not in names():
        known = ", ".join(names())
        raise InputError(f"--draft-kv: the decoder runs {known}; {method.name} can be predicted but not run")
    module = import_module(f"{__name__}.{method.name}")
    classes = [each for each in vars(module).values() if isinstance(each, type)]
    views = [c for c in classes if issubclass(c, View) and c.__module__ == module.__name__]
    return next(c for c in views if c.own_prefill == method.needs_own_prefill)


def view(method: KVMethod, runner: Runner, new_tokens: int, max_accepted: int) -> View:
    """The view of a runner's cache that runs a method.

    - new_tokens: the largest number of generated tokens.
    - max_accepted: the largest number of accepted draft tokens per iteration.
    """
    return view_class(method)(method, runner, new_tokens, max_accepted)
