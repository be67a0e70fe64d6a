"""Places where a word of a table may break, so that the table fits its column."""

import re

CELL = re.compile(r"<t[dh]\b.*?</t[dh]>", re.DOTALL)
OPTION = re.compile(r"(?<=[a-z0-9])([,=])(?=[a-z])(?![^<]*>)")
"""Between two options of a specification, or before the value of one."""

CHOICE = re.compile(r"<code>[^<]{15,}</code>")
"""Values to choose from, too long for a line of a table on a phone."""


def broken(html: str) -> str:
    """A page whose cells may break specifications, long choices, and the word throughput after a hyphen."""

    def cell(found: re.Match[str]) -> str:
        choices = CHOICE.sub(lambda code: code[0].replace("&#124;", "&#124;<wbr>"), found[0])
        return OPTION.sub(r"\1<wbr>", choices).replace("throughput", "through&shy;put")

    return CELL.sub(cell, html)
