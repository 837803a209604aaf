"""Small HTML for notebooks.

All texts are escaped. Colors are those of the notebook.
"""

from __future__ import annotations

import html
from collections.abc import Sequence

_CELL = "padding:2px 12px 2px 0;text-align:{};vertical-align:top;font-weight:{};border:0;white-space:{}"


def escape(text: object) -> str:
    return html.escape(str(text))


def block(*parts: str) -> str:
    """Returns parts of HTML below each other."""
    return f'<div style="line-height:1.5;max-width:60em;overflow-x:auto">{"".join(parts)}</div>'


def paragraph(text: str, is_bold: bool = False) -> str:
    weight = ' style="font-weight:600"' if is_bold else ""
    return f"<div{weight}>{escape(text)}</div>"


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """Returns a table of texts. ``numbers`` are the columns that are aligned to the right, on one line."""
    sides = [("right", "nowrap") if column in numbers else ("left", "normal") for column in range(len(headings))]

    def line(tag: str, cells: Sequence[str], weight: int) -> str:
        styled = (
            f'<{tag} style="{_CELL.format(side, weight, space)}">{escape(cell)}</{tag}>'
            for cell, (side, space) in zip(cells, sides, strict=True)
        )
        return f"<tr>{''.join(styled)}</tr>"

    body = "".join(line("td", row, 400) for row in rows)
    return (
        f'<table style="border-collapse:collapse;margin:4px 0;color:inherit">{line("th", headings, 600)}{body}</table>'
    )
