"""Answers of the tools, as JSON of at most 8 kB.

In one file: the tools share how they open, cut and link.
"""

from __future__ import annotations

import difflib
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Any

import msgspec

from tb_plugin.agent.lanes import lanes_in, lines_of, picture_of
from tb_plugin.analysis.base import Params
from tb_plugin.brief import (
    MAX_BYTES,
    brief_figures,
    brief_finding,
    brief_of,
    brief_parts,
    cut_text,
    fitting,
    short_value,
)
from tb_plugin.errors import BadRequest, NotFoundError
from tb_plugin.findings import data_notices, findings
from tb_plugin.format import json_bytes
from tb_plugin.payloads import Breakdown, Column, Figures, Metric, RunInfo, Table, Timeline, View
from tb_plugin.registry import analysis_by_id, metrics_by_module
from tb_plugin.service.answers.step_selection import window_of
from tb_plugin.service.catalog import Place, place_of
from tb_plugin.service.profile_pair import Pair, pair_view
from tb_plugin.service.states import Entry
from tb_plugin.service.workspace import Workspace

_MAX_ROWS = 100
# Rows of each table in the summary of a view.
_FIRST_ROWS = 5
_MAX_SUGGESTIONS = 10
_MAX_FIGURES = 16
# Names listed for each run.
_MAX_NAMES = 16
# Columns of the timeline as text.
_TEXT_COLUMNS = 80
_NAMES_IN_WINDOW = 12
# The last part of the name of a column says these units.
_UNITS_IN_NAMES = ("_ns", "_bytes")
_PLAIN_UNITS = ("text", "code", "bool", "count", "number")
_VIEW_LISTS = ("tables", "missing", "parts", "figures", "findings")
_ONE_VIEW = "table(view=VIEW, run=RUN, worker=WORKER, span=SPAN): a view and its tables; add table=TABLE for its rows"
_MORE = {
    "one view": _ONE_VIEW,
    "another rank": "brief(run=RUN, worker=WORKER, span=SPAN)",
    "some steps": "brief(..., steps='5-9')",
    "a time range": "timeline(..., start_ns=START, end_ns=END)",
    "SQL": "sql(query='select * from columns')",
    "two profiles": "compare(base_run=RUN, run=RUN)",
    "a number": "explain(name='caused_wait_ns')",
}


class Tools:
    """Each public method is a tool; its docstring tells an agent how to use it. All raise UserError."""

    def __init__(self, workspace: Workspace, path: str) -> None:
        self._workspace = workspace
        self._path = path
        self._scanning = threading.Lock()

    def list_profiles(self, run: str = "", offset: int = 0) -> str:
        """Lists the runs of the log directory with their workers (ranks) and spans (recordings). Start here.

        With `run`, lists each profile of this run. `offset` skips runs, or profiles. New files are found by each call.
        """
        with self._scanning:
            self._workspace.catalog.scan()
        catalog = self._workspace.runs()
        runs = [each for each in catalog.runs if run in ("", each.name)]
        if run and not runs:
            raise NotFoundError(f"There is no run {run}.", "run", "Call list_profiles() to see all runs.")
        items = _profiles(runs[0]) if run else [_run(each) for each in runs]
        name = "profiles" if run else "runs"
        answer = {
            "path": cut_text(self._path),
            "problems": [cut_text(f"{each.what} {each.do}") for each in catalog.problems],
            "run": run,
            name: items[max(0, offset) :],
            "skipped_files": len(catalog.skipped),
        }
        return _paged(answer, name, len(items), max(0, offset))

    def brief(self, run: str = "", worker: str = "", span: str = "", steps: str = "") -> str:
        """Names the bottleneck of one profile, the fixes with their savings, and what is late in its job.

        Without `worker`, describes the first one. `job` compares all ranks: if it names a rank, ask for the brief of
        this rank next. Each finding names the view that shows it. `missing` says what was not recorded.
        """
        place, ranks = self._place(run, worker, span)
        made = brief_of(self._workspace, ranks, self._path, place, steps)
        return fitting({**made, "more": _MORE}, json_bytes).decode()

    def table(
        self,
        view: str,
        table: str = "",
        run: str = "",
        worker: str = "",
        span: str = "",
        steps: str = "",
        search: str = "",
        sort: str = "",
        ascending: bool = False,
        offset: int = 0,
        limit: int = 20,
        parameters: dict[str, str] | None = None,
    ) -> str:
        """Shows one view of a profile, or one page of rows of its table.

        `brief` lists the views. `view='distributed'` compares all ranks. Without `table`, returns the figures, the
        findings and the first rows of each table. With `table`, returns `limit` rows from row `offset`, sorted by the
        column `sort`, descending unless `ascending`. `parameters` are further parameters of the
        view, such as `phase`, or `start_ns` and `end_ns` of the view `range`.
        """
        place, _ = self._place(run, worker, span)
        if analysis_by_id(view).scope == "pair":
            raise BadRequest("This view compares two profiles.", view, "Call compare().")
        if analysis_by_id(view).scope == "workers":
            place = msgspec.structs.replace(place, worker=None)
        asked = dict(parameters or {})
        params = Params(
            table=table or None,
            phase=asked.pop("phase", ""),
            pattern=asked.pop("pattern", ""),
            search=search or asked.pop("search", ""),
            sort=sort or None,
            descending=not ascending,
            offset=_whole(offset, "offset", 0),
            limit=min(_whole(limit, "limit", 1), _MAX_ROWS) if table else _FIRST_ROWS,
            extra=tuple(asked.items()),
        )
        answer = self._workspace.answer(place, view, params, steps)
        if table:
            return _rows_of(msgspec.json.decode(answer, type=Table), view)
        return _view_of(msgspec.json.decode(answer, type=View), {"run": place.run, "worker": place.worker})

    def compare(
        self,
        base_run: str = "",
        base_worker: str = "",
        base_span: str = "",
        run: str = "",
        worker: str = "",
        span: str = "",
        base_steps: str = "",
        steps: str = "",
    ) -> str:
        """Compares two profiles: what became slower or faster per step, and whether the change is within noise.

        `base_...` select the baseline; `run`, `worker` and `span` the experiment. Values are experiment minus
        baseline. `interval` holds the 95 % bounds of a change.
        """
        base, exp = (
            self._workspace.catalog.find(self._place(*names)[0])
            for names in ((base_run, base_worker, base_span), (run, worker, span))
        )
        pair = Pair(self._workspace, base, exp, pair_view(base, exp), base_steps, steps)
        sides = {"baseline": " / ".join(base.key), "experiment": " / ".join(exp.key)}
        return _view_of(pair.view(_FIRST_ROWS), sides)

    def sql(
        self, query: str, run: str = "", worker: str = "", span: str = "", all_ranks: bool = False, offset: int = 0
    ) -> str:
        """Runs one SELECT over the events of a profile. `select * from columns` lists tables, columns and units.

        With `all_ranks`, queries all ranks of the run; each table then has the column `rank`. `offset` skips rows.
        """
        place, _ = self._place(run, worker, span)
        extra = (("query", query), *((("ranks", "all"),) if all_ranks else ()))
        params = Params(table="rows", offset=_whole(offset, "offset", 0), limit=_MAX_ROWS, extra=extra)
        return _rows_of(msgspec.json.decode(self._workspace.answer(place, "sql", params), type=Table), "sql")

    def timeline(
        self,
        run: str = "",
        worker: str = "",
        span: str = "",
        steps: str = "",
        start_ns: int | None = None,
        end_ns: int | None = None,
    ) -> str:
        """Shows a time range as text: one line per thread or stream, and the names with the most time.

        Select the range with `steps`, or with `start_ns` and `end_ns` since the start of the trace. Each character
        is one `column_ns` wide and shows the innermost event; `marks` explains the characters.
        """
        place, start, end = self._range(run, worker, span, steps, start_ns, end_ns)
        lanes = lanes_in(self._workspace, place, self._timeline(place), start, end, _TEXT_COLUMNS)
        bounds = (("start_ns", str(start)), ("end_ns", str(end)))
        params = Params(table="range", limit=_NAMES_IN_WINDOW, extra=bounds)
        names = msgspec.json.decode(self._workspace.answer(place, "range", params), type=Table)
        keys = ("name", "kind", "events", "inside_ns", "inside_self_ns")
        answer = {
            **_key(place),
            "start_ns": start,
            "end_ns": end,
            "column_ns": (end - start) // _TEXT_COLUMNS,
            "names": [_short_row(row, keys) for row in names.rows],
            "all_names": names.matched_rows,
            **lines_of(lanes),
        }
        return fitting(answer, json_bytes, ("names", "lanes")).decode()

    def timeline_picture(
        self,
        run: str = "",
        worker: str = "",
        span: str = "",
        steps: str = "",
        start_ns: int | None = None,
        end_ns: int | None = None,
    ) -> tuple[str, bytes]:
        """Shows a time range as a picture. The text names the lanes from top to bottom, and the colors.

        Select the range as for `timeline`.
        """
        place, start, end = self._range(run, worker, span, steps, start_ns, end_ns)
        text, png = picture_of(self._workspace, place, self._timeline(place), start, end)
        return json_bytes({**_key(place), "start_ns": start, "end_ns": end, **text}).decode(), png

    def explain(self, name: str) -> str:
        """Explains a number: its unit and definition. `name` is a key such as `caused_wait_ns`, or part of a title."""
        found = _metrics_named(name)
        answer = {"metrics": [_metric(each) for each in found], "columns": _columns_named(name)}
        if not found and not answer["columns"]:
            close = difflib.get_close_matches(_last(name), _keys(), _MAX_SUGGESTIONS, 0.5)
            raise NotFoundError(f"There is no number {cut_text(name)}.", "name", f"Similar names: {', '.join(close)}.")
        return fitting(answer, json_bytes, ("columns", "metrics")).decode()

    def _place(self, run: str, worker: str, span: str) -> tuple[Place, list[Entry]]:
        """Returns a loaded profile, by default the first of the run, and all profiles of its run."""
        catalog, place = self._workspace.catalog, Place(run or None, worker or None, span or None)
        # The ranks of a merged file are known only after reading it.
        self._workspace.load(place_of(catalog.matching(place)[0]))
        entry = catalog.matching(place)[0]
        return place_of(entry), catalog.matching(Place(entry.key[0]))

    def _range(
        self, run: str, worker: str, span: str, steps: str, start_ns: int | None, end_ns: int | None
    ) -> tuple[Place, int, int]:
        place, _ = self._place(run, worker, span)
        summary = self._workspace.load(place).summary
        head = self._timeline(place)
        start, end = window_of(steps, summary.steps if summary else (), start_ns, end_ns)
        first = head.start_ns if start is None else max(0, start)
        last = head.end_ns if end is None else end
        if last <= first:
            raise BadRequest("The range is empty.", "start_ns, end_ns", f"The trace ends at {head.end_ns} ns.")
        return place, first, last

    def _timeline(self, place: Place) -> Timeline:
        view = msgspec.json.decode(self._workspace.answer(place, "timeline", Params()), type=View)
        head = view.payloads["timeline"]
        assert isinstance(head, Timeline)
        return head


def _key(place: Place) -> dict[str, str | None]:
    return {"run": place.run, "worker": place.worker, "span": place.span}


def _run(run: RunInfo) -> dict[str, Any]:
    workers = [worker.name for worker in run.workers]
    spans = list(dict.fromkeys(span.id for worker in run.workers for span in worker.spans))
    every = [span for worker in run.workers for span in worker.spans]
    return {
        "run": run.name,
        "formats": list(dict.fromkeys(span.format for span in every)),
        "workers": [cut_text(name) for name in workers[:_MAX_NAMES]],
        "more_workers": max(0, len(workers) - _MAX_NAMES),
        "spans": spans[:_MAX_NAMES],
        "more_spans": max(0, len(spans) - _MAX_NAMES),
    }


def _profiles(run: RunInfo) -> list[dict[str, Any]]:
    return [
        {
            "worker": cut_text(worker.name),
            "span": span.id,
            "format": span.format,
            "size_bytes": span.size_bytes,
            "state": span.state,
            "problem": "" if span.problem is None else cut_text(f"{span.problem.what} {span.problem.do}"),
        }
        for worker in run.workers
        for span in worker.spans
    ]


def _rows_of(table: Table, view: str) -> str:
    keys = [column.metric.key for column in table.columns if not column.hidden]
    answer = {
        "view": view,
        "table": table.name,
        "units": _units(table.columns),
        "offset": table.offset,
        "rows": [_short_row(row, keys) for row in table.rows],
    }
    return _paged(answer, "rows", table.matched_rows, table.offset, ("rows", "units"))


def _paged(answer: Mapping[str, Any], name: str, total: int, offset: int, lists: Sequence[str] = ()) -> str:
    """Encodes one page of a list of ``total`` items. ``remaining`` is the number of items after it."""

    def encoded(page: dict[str, Any]) -> bytes:
        return json_bytes({**page, "remaining": max(0, total - offset - len(page[name]))})

    return fitting(answer, encoded, lists or (name,)).decode()


def _view_of(view: View, head: Mapping[str, object]) -> str:
    payloads = list(view.payloads.values())
    listed = (each for payload in payloads if isinstance(payload, Figures) for each in brief_figures(payload))
    figures = list({(each["title"], each["value"]): each for each in listed}.values())
    parts = next((each for each in payloads if isinstance(each, Breakdown)), None)
    tables = [each for each in payloads if isinstance(each, Table)]
    answer = {
        "view": view.id,
        **head,
        "figures": figures[:_MAX_FIGURES],
        "more_figures": max(0, len(figures) - _MAX_FIGURES),
        **brief_parts(parts),
        "findings": [brief_finding(one) for one in findings(payloads, answers=True)],
        "missing": [cut_text(f"{one.text} {one.todo}".strip()) for one in data_notices(payloads)],
        "tables": [_first_rows(each) for each in tables],
    }
    return fitting(_with_short_tables(answer), json_bytes, _VIEW_LISTS).decode()


def _with_short_tables(answer: dict[str, Any]) -> dict[str, Any]:
    """Removes rows from all tables alike, until the answer fits or each table has one row."""
    for rows in range(_FIRST_ROWS, 0, -1):
        tables = [{**each, "first_rows": each["first_rows"][:rows]} for each in answer["tables"]]
        answer = {**answer, "tables": tables}
        if len(json_bytes({**answer, "shortened": {}})) <= MAX_BYTES:
            break
    return answer


def _first_rows(table: Table) -> dict[str, Any]:
    keys = [column.metric.key for column in table.columns if not column.hidden]
    return {
        "table": table.name,
        "title": table.title,
        "rows": table.matched_rows,
        "units": _units(table.columns),
        "first_rows": [_short_row(row, keys) for row in table.rows[:_FIRST_ROWS]],
    }


def _units(columns: Sequence[Column]) -> list[str]:
    """Returns ``key: unit`` of the columns whose names do not end in their unit."""
    metrics = (column.metric for column in columns if not column.hidden)
    return [
        f"{each.key}: {each.unit}"
        for each in metrics
        if each.unit not in _PLAIN_UNITS and not each.key.endswith(_UNITS_IN_NAMES)
    ]


def _short_row(row: Mapping[str, Any], keys: Sequence[str]) -> dict[str, object]:
    return {key: short_value(row[key]) for key in keys if row.get(key) is not None}


def _whole(value: int, name: str, least: int) -> int:
    if value < least:
        raise BadRequest(f"{name} must be {least} or more.", name, f"Got {value}.")
    return value


@cache
def _metrics() -> dict[str, Metric]:
    groups: Callable[[], Any] = metrics_by_module
    return dict(chain.from_iterable(group.items() for group in groups().values()))


def _keys() -> list[str]:
    from tb_plugin.sql.tables import TABLES

    return list(dict.fromkeys([*_metrics(), *(each.name for table in TABLES.values() for each in table.columns)]))


def _last(name: str) -> str:
    """Returns the last part of a name such as ``overview.step_time_mean_ns``."""
    return name.strip().rpartition(".")[2]


def _metrics_named(name: str) -> list[Metric]:
    metrics, wanted = _metrics(), _last(name)
    if wanted in metrics:
        return [metrics[wanted]]
    words = name.strip().lower()
    return [each for each in metrics.values() if words and words == each.title.lower()][:_MAX_SUGGESTIONS]


def _columns_named(name: str) -> list[dict[str, str]]:
    from tb_plugin.sql.tables import TABLES

    wanted = _last(name)
    return [
        {"sql_table": table.name, "column": column.name, "unit": column.unit, "meaning": column.meaning}
        for table in TABLES.values()
        for column in table.columns
        if column.name == wanted
    ]


def _metric(metric: Metric) -> dict[str, str]:
    return {
        "key": metric.key,
        "title": metric.title,
        "unit": metric.unit,
        "definition": metric.definition,
        "over": metric.window.replace("{per_step}", ""),
    }
