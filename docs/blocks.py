"""Printed lines on a page of any width: a long text continues under its own beginning, and a row of a table
stays whole.
"""

import re
from html import unescape

from generate import COLUMNS

from perfmodel.cli.output import PIPED

COMMAND = re.compile(r'(<span class="gp">\$ </span>)(.*?)(?=\n<span class="g[op]">|\n</code>)', re.DOTALL)
OUTPUT = re.compile(r'(?:<span class="go">.*?</span>\n)+')
TEXT = re.compile(
    r'(<div class="language-text highlight"><pre><span></span><code>)(.*?)(?=</code>)', re.DOTALL
)
FLAG = re.compile(r"(?<![\w&;/.=-])--?[a-z][\w-]*(?![^<]*>)")
"""A flag in the text between tags."""
PARTS = re.compile(rf"<pre>.*?</pre>|<code\b.*?</code>|{FLAG.pattern}", re.DOTALL)
LABEL = re.compile(r"( *\S+(?: \S+)* {2,}| *)(.*)")
DEEPEST = 24
"""Columns that a label may take from each line of its text."""
FULL = (COLUMNS, PIPED)
"""Columns at which the outputs of pages and of notebooks are wrapped."""
ROW = -1
"""In place of the column where the text of a line begins."""


def fitted(html: str) -> str:
    """A page whose commands and outputs fit a narrow window, apart from tables."""
    html = COMMAND.sub(r'\1<span class="command">\2</span>', html)
    html = OUTPUT.sub(
        lambda found: wrapped(re.findall(r'<span class="go">(.*)</span>\n', found[0]), "go "), html
    )
    return TEXT.sub(lambda found: found[1] + wrapped(found[2].removesuffix("\n").split("\n")), html)


def flagged(html: str) -> str:
    """A page on which no line ends within a flag of a block or of a sentence."""
    whole = r'<span class="flag">\g<0></span>'

    def part(found: re.Match[str]) -> str:
        return found[0] if found[0].startswith("<code") else FLAG.sub(whole, found[0])

    return PARTS.sub(part, html)


def wrapped(lines: list[str], kind: str = "") -> str:
    """Lines of HTML as one element for each row and for each text, which may have several lines."""
    parts: list[tuple[int, list[str]]] = []
    for line in lines:
        at = column(unescape(line))
        if parts and continues(unescape(parts[-1][1][-1]), parts[-1][0], unescape(line), at):
            parts[-1][1].append(line[at:])
        else:
            parts.append((at, [line]))
    return "".join(element(at, several, kind) for at, several in parts)


def column(line: str) -> int:
    """Where the text of a line begins, after its label or indentation; `ROW` for a row of a table."""
    label, words = LABEL.fullmatch(line).groups()  # type: ignore[union-attr]  # every line matches
    is_row = not words or "─" in line or re.search(r"\S {2,}\S", words) or len(label) > DEEPEST
    return ROW if is_row else len(label)


def continues(before: str, column_before: int, line: str, at: int) -> bool:
    """Whether a line was printed on a line of its own only because the one before it was full."""
    if at != column_before or at == ROW or line[:at].strip():
        return False
    longer = len(before) + 1 + len(line.split(" ")[0])
    return at > 0 or any(len(before) <= full < longer for full in FULL)


def element(at: int, lines: list[str], kind: str) -> str:
    if at == ROW:
        return f'<span class="{kind}row">{lines[0]}</span>\n'
    text = '<span class="break">\n</span>'.join(lines)
    return f'<span class="{kind}words" style="--column: {at}ch">{text}</span>\n'
