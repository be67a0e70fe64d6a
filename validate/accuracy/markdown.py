"""Writes all Markdown tables: in reports, docs/accuracy.md, summaries of CI, and the generated pages."""

from collections.abc import Collection, Iterable, Sequence


def table(
    header: Sequence[str], rows: Iterable[Sequence[str]], text_columns: Collection[int] = (0,)
) -> list[str]:
    """The lines of a table.

    - text_columns: the indices of the left-aligned columns. Other columns are right-aligned.
    """
    rule = [":--" if number in text_columns else "--:" for number in range(len(header))]
    return [_line(header), _line(rule), *map(_line, rows)]


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
