"""The views: all numbers, their shares (where there are any), and the negative ones (hidden where there are none)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from tb_plugin.analysis.base import NO_BORROWED_NUMBERS, Frame, Missing, Params, Part, Scope, Traits, answer_view
from tb_plugin.payloads import Column, CoverageInfo, Figure, Figures, Metric, Scalar, Table, View
from tests.toy.model import Numbers

NAME = Metric("toy_name", "Name", "text", "What was counted.")
VALUE = Metric("toy_value", "Value", "count", "How many there are.")
TOTAL = Metric("toy.total", "Total", "count", "The sum of all values.")
SHARE = Metric("toy_share", "Share", "ratio", "The value over the total.")


class _NumbersView:
    id: str
    title: str
    model = Numbers
    scope: Scope = "profile"
    borrows = NO_BORROWED_NUMBERS

    def missing(self, model: Numbers) -> Missing | None:
        return None

    def part_key(self, params: Params) -> tuple[object, ...]:
        return ()

    def answer(self, parts: Sequence[Part], params: Params) -> View | Table:
        return answer_view(self, parts[0], params)  # type: ignore[arg-type]


class Listed(_NumbersView):
    id = "listed"
    title = "Numbers"
    traits = Traits("Numbers", cached=True, tables=("numbers",))

    def part(self, model: Numbers, params: Params) -> Part:
        figures = Figures("total", "Total", "", [Figure(TOTAL, model.total)], "headline")
        frame = _frame("numbers", "Numbers", {NAME: model.names, VALUE: model.values})
        layout = ["total", "numbers"]
        return Part(CoverageInfo(), {"toy.total": model.total}, {"numbers": frame}, {"total": figures}, layout)


class Shares(_NumbersView):
    id = "shares"
    title = "Shares"
    traits = Traits("Numbers")

    def missing(self, model: Numbers) -> Missing | None:
        return None if model.total else Missing("All numbers are 0.", "count something")

    def part(self, model: Numbers, params: Params) -> Part:
        shares = [value / model.total for value in model.values]
        frame = _frame("shares", "Shares", {NAME: model.names, SHARE: shares})
        return Part(CoverageInfo(), {}, {"shares": frame}, {}, ["shares"])


class Negative(_NumbersView):
    id = "negative"
    title = "Negative"
    traits = Traits("Numbers", hidden=True)

    def missing(self, model: Numbers) -> Missing | None:
        return None if any(value < 0 for value in model.values) else Missing("No number is negative.", "")

    def part(self, model: Numbers, params: Params) -> Part:
        rows = [(name, value) for name, value in zip(model.names, model.values, strict=True) if value < 0]
        frame = _frame("negative", "Negative", {NAME: [row[0] for row in rows], VALUE: [row[1] for row in rows]})
        return Part(CoverageInfo(), {}, {"negative": frame}, {}, ["negative"])


def _frame(name: str, title: str, values: Mapping[Metric, Sequence[Scalar]]) -> Frame:
    data = pa.table({metric.key: pa.array(list(column)) for metric, column in values.items()})
    return Frame(name, title, [Column(metric) for metric in values], data, ("toy_name",), "toy_name")
