"""The values (*words*) of ``--engine``. Each engine has a file ``hardware/engines/<word>.yaml``. To add an
engine, add a file.
"""

import re
from functools import cache

from perfmodel.errors import InputError
from perfmodel.reading import read_text
from perfmodel.specs.boundary import files
from perfmodel.specs.boundary.strict_yaml import read_yaml
from perfmodel.specs.engines.engines import engines
from perfmodel.specs.engines.serving import LAST, ResearchStack, ServingEngine

FOLDER = "engines"
_HEAD = re.compile(r"^(?:title|order): .*", re.MULTILINE)
"""The lines of a file that `stack_titles` needs."""


@cache
def stack_titles() -> dict[str, str]:
    """The titles of all engines by their words in ``--engine``, sorted by `order`.

    Only two lines of each file are parsed, because the help of the command line does not need more.
    """
    folder = files.data_directory(FOLDER)
    stacks = {}
    for word in files.bundled_names(FOLDER):
        lines = _HEAD.findall(read_text(folder / f"{word}.yaml", files.MAX_FILE_BYTES))
        stacks[word] = read_yaml("\n".join(lines)) or {}
    ordered = sorted(stacks, key=lambda word: stacks[word].get("order", LAST))
    return {word: stacks[word].get("title", word) for word in ordered}


@cache
def stack_files() -> dict[str, ServingEngine | ResearchStack]:
    """The contents of all engine files by their words in ``--engine``, sorted by `order`."""
    stacks = {word: _read(word) for word in files.bundled_names(FOLDER)}
    return dict(sorted(stacks.items(), key=lambda item: item[1].order))


def _read(word: str) -> ServingEngine | ResearchStack:
    """The contents of an engine's file. Raises InputError, which names the file and the key."""
    path = files.data_directory(FOLDER) / f"{word}.yaml"
    data = files.read_mapping(path)
    if "research" in data:
        return files.parse(ResearchStack, data, str(path))
    return files.parse(ServingEngine, data, str(path))


def untimed_prompts(word: str | None) -> str:
    """The known facts about the time of an engine's prompts, if too few prompt times were measured for an
    interval of TTFT. The result is empty if there are enough, or if there is no engine.
    """
    engine = serving_engines().get(word or "")
    return "" if engine is None else engine.untimed_prompts


@cache
def programs() -> dict[str, str]:
    """The word of the engine by the name of each program that runs it."""
    return {name: word for word, engine in serving_engines().items() for name in engine.programs}


@cache
def serving_engines() -> dict[str, ServingEngine]:
    """The facts about all serving engines by their words in ``--engine``, sorted by `order`. Research stacks
    are left out.
    """
    return {word: stack for word, stack in stack_files().items() if isinstance(stack, ServingEngine)}


def lender_of(word: str) -> str | None:
    """The engine whose fitted constants an engine uses. It is the engine itself, or the engine that its file
    names. The result is None for a research stack.

    Raises InputError for a serving engine that neither has nor borrows constants.
    """
    fitted = engines().engines
    if word in fitted:
        return word
    if word not in serving_engines():
        return None
    lender = serving_engines()[word].constants_of
    if lender in fitted:
        return lender
    reason = "its file names no other engine" if lender is None else f"nor has {lender}, which its file names"
    raise InputError(
        f"--engine: {word} has no fitted constants ({reason}): to answer with those of another engine, "
        f"hardware/{FOLDER}/{word}.yaml must name it, constants_of: one of {', '.join(fitted)}"
    )
