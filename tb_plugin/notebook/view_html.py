"""A view as short HTML."""

from __future__ import annotations

from collections.abc import Sequence

from tb_plugin.findings import Findings, answers, data_notices, findings
from tb_plugin.format import format_value
from tb_plugin.lib import html
from tb_plugin.payloads import Breakdown, Figures, Table, View

_MAX_FINDINGS = 5
_MAX_ROWS = 8
_MAX_COLUMNS = 8
_MAX_NAME = 60
_TEXT_UNITS = ("text", "code", "bool")


def view_html(title: str, view: View, tables: Sequence[str] = ()) -> str:
    """Returns the sentences, the key numbers, the parts, the findings and some tables of a view."""
    payloads = list(view.payloads.values())
    figures = next((each for each in payloads if isinstance(each, Figures)), None)
    parts = next((each for each in payloads if isinstance(each, Breakdown)), None)
    found, notices = findings(payloads), data_notices(payloads)
    shown = (view.payloads.get(name) for name in tables)
    return html.block(
        html.paragraph(title, is_bold=True),
        *(html.paragraph(one.text) for one in answers(payloads)),
        "" if figures is None else _figures(figures),
        "" if parts is None else _parts(parts),
        Findings(found[:_MAX_FINDINGS])._repr_html_() if found else "",
        *(_table(each) for each in shown if isinstance(each, Table) and each.rows),
        html.paragraph(f"Notices about the recording: {len(notices)}") if notices else "",
    )


def _figures(made: Figures) -> str:
    rows = [[each.metric.title, format_value(each.value, each.metric.unit), each.note] for each in made.figures]
    return html.table(["Number", "Value", ""], rows, numbers=(1,))


def _parts(made: Breakdown) -> str:
    is_change = made.style == "waterfall"
    headings = [made.title, "Change" if is_change else "Value", *([] if is_change else ["Share"])]
    rows = []
    for part in made.parts:
        sign = "+" if is_change and part.value > 0 else ""
        cells = [part.metric.title, sign + format_value(part.value, made.unit)]
        share = part.value / made.total if made.total else 0
        rows.append(cells if is_change else [*cells, format_value(share, "ratio")])
    return html.table(headings, rows, numbers=(1, 2))


def _table(made: Table) -> str:
    metrics = [column.metric for column in made.columns if not column.hidden][:_MAX_COLUMNS]
    rows = [[_cell(format_value(row.get(each.key), each.unit)) for each in metrics] for row in made.rows[:_MAX_ROWS]]
    numbers = [at for at, each in enumerate(metrics) if each.unit not in _TEXT_UNITS]
    more = made.matched_rows - len(rows)
    return html.paragraph(
        made.title + (f" (first {len(rows)} of {made.matched_rows})" if more else ""), is_bold=True
    ) + (html.table([each.title for each in metrics], rows, numbers))


def _cell(text: str) -> str:
    return text if len(text) <= _MAX_NAME else f"{text[: _MAX_NAME - 3]}..."
