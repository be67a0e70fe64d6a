"""Which attention backend an engine runs: the one that a question names, or the engine's own choice."""

from functools import cache

from perfmodel.errors import unknown_name
from perfmodel.operations import Head
from perfmodel.specs.engines.attention import EngineAttention
from perfmodel.specs.engines.serving import serving_engines


@cache
def engine_attention() -> dict[str, EngineAttention]:
    """Word of ``--engine`` -> its backends; without research stacks and engines whose backends are unknown.

    An engine that states none has those of the engine whose constants it borrows.
    """
    engines = serving_engines()
    stated = {word: engine.attention or _lent(engine.constants_of) for word, engine in engines.items()}
    return {word: attention for word, attention in stated.items() if attention is not None}


def _lent(lender: str | None) -> EngineAttention | None:
    return None if lender is None else serving_engines()[lender].attention


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
    """Name of the attention backend: the requested one, else the engine's own choice; None if unknown.

    narrow: whether the cache has values below 16 bits. version: of the engine; by default the newest.

    Raises InputError for a backend that the engine does not have.
    """
    known = engine_attention().get(engine)
    if requested is not None and (known is None or requested not in known.backends):
        raise unknown_name(
            "--attention-backend", f"backend of {engine}", requested, known.backends if known else ()
        )
    if requested is not None or known is None:
        return requested
    return known.default(architecture, head, narrow, version)
