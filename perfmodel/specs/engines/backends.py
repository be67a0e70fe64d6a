"""Finds the attention backend that an engine runs. It is the backend that the question names, or the engine's
own choice.
"""

from functools import cache

from perfmodel.errors import unknown_name
from perfmodel.operations import Head
from perfmodel.specs.engines.attention import EngineAttention
from perfmodel.specs.engines.serving import ResearchStack, ServingEngine
from perfmodel.specs.engines.stacks import serving_engines, stack_files


@cache
def engine_attention() -> dict[str, EngineAttention]:
    """The attention backends of each engine, by its word in ``--engine``. Stacks with unknown backends are
    left out.

    An engine whose file lists no backends has the backends of the engine whose constants it borrows.
    """
    stated = {word: stack.attention or _lent(stack) for word, stack in stack_files().items()}
    return {word: attention for word, attention in stated.items() if attention is not None}


def _lent(stack: ServingEngine | ResearchStack) -> EngineAttention | None:
    """The attention backends of the engine whose constants a stack borrows, or None."""
    lender = stack.constants_of if isinstance(stack, ServingEngine) else None
    return None if lender is None else serving_engines()[lender].attention


@cache
def attention_of(stack: str) -> EngineAttention | None:
    """The attention backends of a calibration's stack. The stack is a word of ``--engine``, or a text that
    begins with such a word.
    """
    known = engine_attention()
    return known.get(stack) or known.get(stack.partition(" ")[0])


@cache
def backend_name(
    engine: str,
    architecture: str,
    head: Head,
    requested: str | None = None,
    *,
    narrow: bool = False,
    version: str = "",
) -> str | None:
    """Name of the attention backend. It is the requested backend, or else the engine's own choice. The result
    is None if it is unknown.

    - engine: a word of ``--engine``, or the stack of a calibration.
    - narrow: whether the cache has values below 16 bits.
    - version: version of the engine. By default, it is the newest version.

    Raises InputError for a backend that the engine does not have.
    """
    known = attention_of(engine)
    if known is None:
        if requested is not None:
            raise unknown_name("--attention-backend", f"backend of {engine}", requested, ())
        return None
    usual = known.default(architecture, head, narrow, version)
    if requested is None:
        return usual
    meant = known.named(requested)
    if not meant:
        raise unknown_name("--attention-backend", f"backend of {engine}", requested, known.backends)
    return usual if usual in meant else meant[0]
