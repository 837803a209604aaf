"""A short answer about one profile or job, for programs and agents.

Names that end in ``_ns`` are nanoseconds. Ratios are 0..1. docs/command-line.md describes the fields.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from tb_plugin import registry
from tb_plugin.analysis.base import Params
from tb_plugin.errors import BadRequest, TorchTraceError
from tb_plugin.findings import Finding, answers, data_notices, findings
from tb_plugin.format import format_range, format_value
from tb_plugin.payloads import Breakdown, Figures, Table, View
from tb_plugin.service.answers.sql_answers import RANKS_VIEW
from tb_plugin.service.catalog import Place
from tb_plugin.service.states import Entry
from tb_plugin.service.workspace import Workspace

MAX_BYTES = 8_000
SCHEMA_VERSION = 1
_MAX_TEXT = 400
_MAX_NAME = 120
_FINDINGS = 5
_ROWS = 10
_MISSING = 5
_OTHERS = 10
# The first of these tables that a profile has is listed: (view, table, columns).
_TABLES = (
    ("kernels", "kernels", ("name", "class", "calls", "total_ns", "mean_ns")),
    ("operators", "operators", ("name", "calls", "host_self_ns", "device_self_ns")),
)
# Lists that lose their last items if the answer is too long, in this order.
_SHORTENED = ("others", "rows", "missing", "parts", "figures", "findings", "job")

Brief = dict[str, Any]


def brief_of(workspace: Workspace, entries: Sequence[Entry], path: str, place: Place, steps: str = "") -> Brief:
    """Returns the brief of the profile at ``place``, which is one of ``entries``. Raises UserError."""
    offered = workspace.offered(place)
    there = [info.id for info in offered if info.available]
    pages = [view for view in there if registry.analysis_by_id(view).scope == "profile"]
    view = msgspec.json.decode(workspace.answer(place, pages[0], Params(limit=_ROWS), steps), type=View)
    payloads = list(view.payloads.values())
    notices = data_notices(payloads)
    job, job_error = _of_job(workspace, entries, place, steps, there)
    absent = [f"{info.title}: {info.why} {info.enable}".strip() for info in offered if not info.available and info.why]
    figures = next((each for each in payloads if isinstance(each, Figures)), None)
    parts = next((each for each in payloads if isinstance(each, Breakdown)), None)
    return {
        "schema_version": SCHEMA_VERSION,
        "path": cut_text(path),
        "run": place.run,
        "worker": place.worker,
        "span": place.span,
        "verdict": [cut_text(one.text) for one in answers(payloads)],
        "job": [brief_finding(one) for one in job],
        "figures": brief_figures(figures),
        **brief_parts(parts),
        "findings": [brief_finding(one) for one in findings(payloads)[:_FINDINGS]],
        **_rows(workspace, place, steps, there),
        "missing": [cut_text(text) for text in job_error]
        + [cut_text(f"{one.text} {one.todo}".strip()) for one in notices[:_MISSING]]
        + [cut_text(text) for text in absent[:_MISSING]],
        "others": [" / ".join(entry.key) for entry in entries if entry.key != (place.run, place.worker, place.span)][
            :_OTHERS
        ],
        "other_profiles": len(entries) - 1,
        "views": pages,
        "more": _commands(path, place if len(workspace.catalog.entries()) > 1 else Place()),
    }


def fitting(answer: Mapping[str, Any], encoded: Callable[[Brief], bytes], lists: Sequence[str] = _SHORTENED) -> bytes:
    """Returns the encoded answer of at most MAX_BYTES.

    If it is too long, ``lists`` lose their last items, one list after the other. ``shortened`` says how many items each
    list lost. Raises BadRequest if the answer is too long without the lists.
    """
    answer = {**answer, "shortened": {}}
    made = encoded(answer)
    for name in lists:
        while len(made) > MAX_BYTES and answer[name]:
            answer[name] = answer[name][:-1]
            answer["shortened"] = {**answer["shortened"], name: answer["shortened"].get(name, 0) + 1}
            made = encoded(answer)
    if len(made) > MAX_BYTES:
        raise BadRequest(f"The answer is longer than {MAX_BYTES} bytes.", "", "Ask for fewer columns.")
    return made


def to_markdown(brief: Brief) -> bytes:
    lines = [f"# {brief['run']} / {brief['worker']} / span {brief['span']}", "", *brief["verdict"]]
    if brief["job"]:
        lines += ["", "## All ranks", *_finding_lines(brief["job"])]
    lines += ["", "## Figures"]
    lines += [
        f"- {each['title']}: {format_value(each['value'], each['unit'])} {each['note']}".rstrip()
        for each in brief["figures"]
    ]
    if brief["parts"]:
        lines += ["", f"## {brief['parts_of']}"]
        lines += [
            f"- {part['title']}: {format_value(part['value'], brief['parts_unit'])} ({format_value(part['share'], 'ratio')})"
            for part in brief["parts"]
        ]
    lines += ["", "## Findings", *(_finding_lines(brief["findings"]) or ["None."])]
    if brief["rows"]:
        names = list(dict.fromkeys(name for row in brief["rows"] for name in row))
        lines += ["", f"## {brief['rows_of'].capitalize()}", _cells(names), _cells(["---"] * len(names))]
        lines += [_cells([str(row.get(name, "")) for name in names]) for row in brief["rows"]]
    if brief["missing"]:
        lines += ["", "## About this recording", *(f"- {text}" for text in brief["missing"])]
    if brief["other_profiles"]:
        lines += ["", f"## Other profiles: {brief['other_profiles']}", *(f"- {name}" for name in brief["others"])]
    lines += ["", "## Ask more", *(f"- {what}: `{command}`" for what, command in brief["more"].items())]
    lines += [f"- views: {', '.join(brief['views'])}"]
    if brief["shortened"]:
        lost = (f"{name} ({count})" for name, count in brief["shortened"].items())
        lines += ["", f"Shortened to {MAX_BYTES} bytes. Number of missing items: {', '.join(lost)}."]
    return ("\n".join(lines) + "\n").encode()


def brief_figures(figures: Figures | None) -> list[Brief]:
    return [
        {"title": each.metric.title, "unit": each.metric.unit, "value": short_value(each.value), "note": each.note}
        for each in (figures.figures if figures else [])
    ]


def brief_parts(made: Breakdown | None) -> Brief:
    """Returns the fields ``parts_of``, ``parts_unit`` and ``parts``. Parts of a change have an interval, not a share."""
    if made is None:
        return {"parts_of": None, "parts_unit": None, "parts": []}
    parts: list[Brief] = []
    for part in made.parts:
        interval = None if part.interval is None else [part.interval.low, part.interval.high]
        more = {"interval": interval} if made.style == "waterfall" else {"share": _share(part.value, made.total)}
        parts.append({"title": part.metric.title, "value": short_value(part.value), **more})
    return {"parts_of": made.title, "parts_unit": made.unit, "parts": parts}


def _of_job(
    workspace: Workspace, entries: Sequence[Entry], place: Place, steps: str, there: Sequence[str]
) -> tuple[list[Finding], list[str]]:
    """Returns the findings about all ranks, and why they could not be computed."""
    ranks = [entry for entry in entries if (entry.key[0], entry.key[2]) == (place.run, place.span)]
    if len(ranks) < 2 or RANKS_VIEW not in there:
        return [], []
    try:
        answer = workspace.group(replace(place, worker=None), RANKS_VIEW, Params(limit=1), steps)
    except TorchTraceError as error:
        return [], [f"The ranks were not compared: {error}"]
    payloads = msgspec.json.decode(answer, type=View).payloads.values()
    return findings(payloads, answers=True)[:_FINDINGS], []


def _rows(workspace: Workspace, place: Place, steps: str, there: Sequence[str]) -> Brief:
    for view, name, columns in _TABLES:
        if view not in there:
            continue
        answer = workspace.answer(place, view, Params(table=name, limit=_ROWS), steps)
        table = msgspec.json.decode(answer, type=Table)
        rows = [{key: short_value(row[key]) for key in columns if row.get(key) is not None} for row in table.rows]
        if rows:
            return {"rows_of": name, "rows": rows}
    return {"rows_of": None, "rows": []}


def brief_finding(one: Finding) -> Brief:
    return {
        "rule": one.rule,
        "severity": one.severity,
        "text": cut_text(one.text),
        "todo": cut_text(one.todo),
        "saving_low_ns": None if one.saving_low_ns is None else round(one.saving_low_ns),
        "saving_high_ns": None if one.saving_high_ns is None else round(one.saving_high_ns),
        "view": one.evidence.view if one.evidence else None,
        "events": one.evidence.events[:3] if one.evidence else [],
    }


def _finding_lines(listed: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = []
    for one in listed:
        low, high = one["saving_low_ns"], one["saving_high_ns"]
        saving = "" if low is None or high is None else f", saves {format_range(low, high, 'ns')} per step"
        lines.append(f"- [{one['severity']}{saving}] {one['text']} {one['todo']}".rstrip())
    return lines


def _commands(path: str, place: Place) -> dict[str, str]:
    """Returns commands for further questions. ``place`` names the profile if the path has several."""
    parts = [path if len(path) <= _MAX_TEXT else "PATH"]
    for option, value in (("--run", place.run), ("--worker", place.worker), ("--span", place.span)):
        parts += [] if value is None else [option, value]
    where = " ".join(map(shlex.quote, parts))
    return {
        "one view": f"torch-trace report {where} --view VIEW --top 20 --format markdown",
        "some steps": f"torch-trace report {where} --brief --steps 5-9",
        "SQL": f'torch-trace sql {where} "select * from columns"',
        "two profiles": f"torch-trace diff BASE {shlex.quote(parts[0])}",
    }


def _share(value: float | None, total: float | None) -> float | None:
    return round(value / total, 4) if value is not None and total else None


def short_value(value: object) -> object:
    """Shortens a text. Rounds a real number to 4 decimals, from 1,000 on to a whole number."""
    if isinstance(value, float):
        return round(value) if abs(value) >= 1000 else round(value, 4)
    return cut_text(value, _MAX_NAME) if isinstance(value, str) else value


def cut_text(text: str, most: int = _MAX_TEXT) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _cells(texts: Sequence[str]) -> str:
    return "| " + " | ".join(text.replace("|", "\\|").replace("\n", " ") for text in texts) + " |"
