"""Places where a word of a table may break, so that the table fits its column."""

import re

CELL = re.compile(r"<t[dh]\b.*?</t[dh]>", re.DOTALL)
OPTION = re.compile(r"(?<=[a-z0-9])([,=])(?=[a-z])(?![^<]*>)")
"""Between two options of a specification, or before the value of one."""


def broken(html: str) -> str:
    """A page whose cells may break specifications, and the word throughput after a hyphen."""

    def cell(found: re.Match[str]) -> str:
        return OPTION.sub(r"\1<wbr>", found[0]).replace("throughput", "through&shy;put")

    return CELL.sub(cell, html)
