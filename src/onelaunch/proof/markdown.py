"""Markdown that can be read as it is."""

from __future__ import annotations

from collections.abc import Sequence


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 0) -> list[str]:
    """Lines of a padded table; the first ``left`` columns to the left, the others to the right."""
    rows = [[_cell(cell) for cell in row] for row in rows]
    # At least 3: the line under the header needs a dash beside its colon.
    widths = [max(3, *(len(row[i]) for row in (header, *rows))) for i in range(len(header))]
    lines = [
        " | ".join(
            cell.ljust(width) if i < left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in (header, *rows)
    ]
    rule = " | ".join("-" * width if i < left else "-" * (width - 1) + ":" for i, width in enumerate(widths))
    return [f"| {line} |" for line in (lines[0], rule, *lines[1:])]


def _cell(text: str) -> str:
    """What would end a cell or a row, as in the names of kernels, is written otherwise."""
    return " ".join(text.splitlines()).replace("\\|", "|").replace("|", "\\|")
