"""The one writer of Markdown tables: reports, docs/accuracy.md, summaries of CI, and the generated docs."""

from collections.abc import Iterable, Sequence


def table(
    header: Sequence[str], rows: Iterable[Sequence[str]], text_columns: Iterable[int] = (0,)
) -> list[str]:
    """Lines of a table: the columns numbered in `text_columns` to the left, the others to the right."""
    left = set(text_columns)
    rule = [":--" if number in left else "--:" for number in range(len(header))]
    return [_line(header), _line(rule), *map(_line, rows)]


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
