"""The writer of all Markdown tables: reports, docs/accuracy.md, summaries of CI, and the generated docs."""

from collections.abc import Iterable, Sequence


def table(
    header: Sequence[str], rows: Iterable[Sequence[str]], text_columns: Iterable[int] = (0,)
) -> list[str]:
    """Lines of a table. The columns numbered in `text_columns` are left-aligned, the others right-aligned."""
    left = set(text_columns)
    rule = [":--" if number in left else "--:" for number in range(len(header))]
    return [_line(header), _line(rule), *map(_line, rows)]


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
