"""Names of engines, devices, models, formats and drafts that people use but that are not modelled. For each
name, the file states the most similar question that can be answered. The names are read from
``hardware/unlisted.yaml``.
"""

import re
from functools import cache
from typing import Annotated

from msgspec import Meta

from perfmodel.errors import InputError, shortened
from perfmodel.specs.boundary import files
from perfmodel.specs.boundary.frozen import Frozen, Text

Beginnings = Annotated[tuple[Text, ...], Meta(min_length=1)]


class Unlisted(Frozen):
    """A group of names that are not modelled.

    - names: beginnings of the names, in lower-case letters and digits.
    - instead: the most similar question that can be answered, in words.
    """

    names: Beginnings
    instead: Text

    def has(self, name: str) -> bool:
        """Whether a name begins with one of `names`."""
        plain = re.sub(r"[^a-z0-9]", "", name.lower())
        return plain.startswith(self.names)


class UnlistedNames(Frozen):
    """The contents of the file: names of engines, devices, models, weight formats and kinds of draft."""

    engines: tuple[Unlisted, ...] = ()
    devices: tuple[Unlisted, ...] = ()
    models: tuple[Unlisted, ...] = ()
    weight_formats: tuple[Unlisted, ...] = ()
    drafts: tuple[Unlisted, ...] = ()


@cache
def unlisted_names() -> UnlistedNames:
    """The contents of the bundled file."""
    return files.load_bundled(UnlistedNames, "", "unlisted")


def refuse_unlisted(flag: str, name: str, known: tuple[Unlisted, ...]) -> None:
    """Raises InputError, which names a similar question, if `name` begins with one of the `known` names."""
    for each in known:
        if each.has(name):
            raise InputError(f"{flag}: {shortened(name)!r} is not modelled: {each.instead}")
