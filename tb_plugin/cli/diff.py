"""``torch-trace diff``: comparison of two profiles, and limits for CI."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from tb_plugin.cli.columns import Heading
from tb_plugin.cli.exit_codes import GATE_FAILED, OK
from tb_plugin.cli.gates import ALIASES, Facts, Gate, Verdict, judge, parse_gate
from tb_plugin.cli.html import check_html, html_of, save_html
from tb_plugin.cli.printer import MarkdownPrinter, Printer, TextPrinter
from tb_plugin.cli.session import capture_message, progress_bar, read_first, scan_path, workers_for
from tb_plugin.cli.terminal import ROWS_IN_TEXT, write_json
from tb_plugin.errors import BadRequest, NotFoundError
from tb_plugin.findings import data_notices, findings, with_finding_count
from tb_plugin.format import column_scale, format_change, format_number, format_value
from tb_plugin.payloads import Breakdown, CaptureInfo, Interval, Payload, Table, Tree, Unit
from tb_plugin.service.answers.questions import Numbers
from tb_plugin.service.catalog import Place, ProfileCatalog, place_of
from tb_plugin.service.profile_pair import Pair, pair_view
from tb_plugin.service.states import Entry
from tb_plugin.service.workspace import Workspace, open_catalog
from tb_plugin.storage.cache import open_store
from tb_plugin.views.diff.noise import step_intervals
from tb_plugin.views.diff.paired_tables import BY_CLASS
from tb_plugin.views.diff.paired_tables import TABLES as JOINED

SCHEMA_VERSION = 4
_UNKNOWN_NOISE = (
    "Noise is known only for step times and their parts, and only with 3 steps or more on each side. The other gates "
    "fail on every change beyond the limit."
)
# Used for traces; other models use the tables of their view.
TABLES = (*(table.name for table in JOINED), "settings")
# Times of the call tree, and the measures that show them.
TREES = {"host_ns": "host_total_ns", "device_ns": "device_total_ns"}
_SIDES = ("baseline", "experiment")
_NOISE = {True: "significant", False: "within noise", None: "unknown"}
# Maximum depth of the call tree in text output.
_TEXT_LEVELS = 2


def diff(arguments: argparse.Namespace) -> int:
    """Prints the comparison and returns the exit code. Raises UserError."""
    check_html(arguments, ("fail_on",))
    gates = [parse_gate(text) for text in arguments.fail_on]
    catalog = open_catalog([("baseline", arguments.base), ("experiment", arguments.exp)])
    catalog.scan()
    for problem in catalog.problems():
        raise problem
    workspace = Workspace(catalog, workers_for(2), open_store())
    try:
        each = ([entry for entry in catalog.entries() if entry.files.root is root] for root in catalog.roots)
        read_first(workspace, [entries[0] for entries in each if len(entries) == 1])
        base = _find(catalog, 0, arguments.base, Place(arguments.base_run, arguments.base_worker, arguments.base_span))
        exp = _find(catalog, 1, arguments.exp, Place(arguments.run, arguments.worker, arguments.span))
        view_id = pair_view(base, exp)
        captures = (arguments.base_capture, arguments.capture)
        for capture in captures:
            workspace.captures.allow(capture, scan_path)
        for entry in (base, exp):
            workspace.profile(place_of(entry))
        for entry in (base, exp):
            with progress_bar.display(entry.files.names[0]):
                workspace.load(place_of(entry), progress_bar.update)
        steps = (arguments.base_steps, arguments.steps)
        pair = Pair(workspace, base, exp, view_id, *steps, *captures, arguments.per)
        if arguments.html:
            save_html(html_of(workspace, pair.places[1], arguments, pair.params().extra), arguments.html)
            return OK
        sides = _numbers(pair) if gates or arguments.format == "json" else None
        verdicts = _verdicts(gates, sides, strict=arguments.strict) if sides else []
        if arguments.format == "json" and sides:
            _print_json(pair, sides, verdicts, arguments.top)
        else:
            printer = MarkdownPrinter() if arguments.format == "markdown" else TextPrinter()
            _print(pair, verdicts, arguments.top or ROWS_IN_TEXT, printer)
    finally:
        workspace.close()
    return OK if all(verdict.passed for verdict in verdicts) else GATE_FAILED


def _numbers(pair: Pair) -> tuple[Numbers, Numbers]:
    sides = zip(pair.places, (pair.base_steps, pair.exp_steps), strict=True)
    found = (pair.workspace.numbers(place, None, steps) for place, steps in sides)
    base, exp = (replace(each, facts=with_finding_count(each.facts, each.notices)) for each in found)
    return base, exp


def _verdicts(gates: Sequence[Gate], sides: tuple[Numbers, Numbers], *, strict: bool) -> list[Verdict]:
    intervals = _intervals(sides) if gates else {}
    base, exp = (side.facts for side in sides)
    return [judge(gate, base, exp, intervals.get(gate.fact), strict=strict) for gate in gates]


def _intervals(sides: tuple[Numbers, Numbers]) -> dict[str, Interval]:
    """Returns the 95 % intervals of the changes of facts that are means per step."""
    if not all("steps" in side.tables for side in sides):
        return {}
    base, exp = (pa.Table.from_pylist(msgspec.json.decode(side.tables["steps"])) for side in sides)
    columns = dict.fromkeys(("total_ns", *base.column_names, *exp.column_names))
    keys = [key for key in columns if key.endswith("_ns")]
    facts = {key: f"overview.breakdown.{key.removesuffix('_ns')}_mean_ns" for key in keys}
    facts["total_ns"] = ALIASES["step_time"]
    return {facts[key]: interval for key, interval in step_intervals(base, exp, keys).items()}


def _find(catalog: ProfileCatalog, side: int, path: str, wanted: Place) -> Entry:
    title = _SIDES[side]
    root = catalog.roots[side]
    entries = [entry for entry in catalog.entries() if entry.files.root is root]
    if not entries:
        reasons = [reason for where, reason in catalog.skipped() if where.startswith(root.name)]
        raise NotFoundError(f"The {title} contains no profile.", path, " ".join(reasons[:1]) or "Check the path.")
    for which in ("run", "worker", "span"):
        names = list(dict.fromkeys(_name(entry, which) for entry in entries))
        value = getattr(wanted, which)
        option = f"--base-{which}" if side == 0 else f"--{which}"
        listed = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
        if value is not None and value not in names:
            raise BadRequest(f"The {title} has no {which} {value}.", option, f"Available: {listed}.")
        if value is None and len(names) > 1:
            raise BadRequest(f"The {title} has {len(names)} {which}s.", path, f"Choose one with {option}: {listed}.")
        entries = [entry for entry in entries if value in (None, _name(entry, which))]
    return entries[0]


def _name(entry: Entry, which: str) -> str:
    name = str(getattr(entry.files, which))
    return name.removeprefix(entry.files.root.name).lstrip("/") if which == "run" else name


def _print(pair: Pair, verdicts: Sequence[Verdict], top: int, printer: Printer) -> None:
    view = pair.view(top)
    printer.heading("Diff", 1)
    printer.line(f"baseline: {_described(pair.base, pair.base_steps)}")
    printer.line(f"experiment: {_described(pair.exp, pair.exp_steps)}")
    for place, side, option in zip(pair.places, _SIDES, ("--base-capture", "--capture"), strict=True):
        for line in capture_message(pair.workspace, place, option):
            printer.line(f"{side}, {line}")
    for name, payload in view.payloads.items():
        # Column titles say what is compared. Kernels of different vendors are compared by class.
        if name == "compared" or (name == "kernels" and BY_CLASS.name in view.payloads):
            continue
        if isinstance(payload, Tree):
            _print_tree(payload, printer)
        elif not isinstance(payload, Table) or payload.rows:
            printer.payload(payload)
    if verdicts:
        printer.heading("Gates", 3)
        rows = [
            (v.gate.text, _change(v), _NOISE[v.is_significant], "passed" if v.passed else "FAILED") for v in verdicts
        ]
        headings = [Heading("gate"), Heading("change", "number"), Heading("noise"), Heading("")]
        printer.rows(headings, rows, keep=(0, 1, 2, 3))
        if any(verdict.interval is None for verdict in verdicts):
            printer.line(_UNKNOWN_NOISE)


def _print_tree(tree: Tree, printer: Printer) -> None:
    level: list[int] = []
    for above in tree.parent:
        level.append(0 if above < 0 else level[above] + 1)
    shown = [row for row, depth in zip(tree.rows, level, strict=True) if depth < _TEXT_LEVELS]
    depths = [depth for depth in level if depth < _TEXT_LEVELS]
    scale = column_scale("ns", [row["exp_ns"] for row in shown] + [row["base_ns"] for row in shown])
    rows = [
        (
            "  " * depth + str(row["name"]),
            format_number(row["base_ns"], scale),
            format_number(row["exp_ns"], scale),
            format_change(row["delta_ns"], scale),
        )
        for row, depth in zip(shown, depths, strict=True)
    ]
    printer.heading(f"{tree.title} ({len(rows)} of {tree.total_nodes})", 3)
    titles = ("baseline", "experiment", "change")
    printer.rows([Heading("place"), *(Heading(f"{title} [{scale.symbol}]", "number") for title in titles)], rows)


def _print_json(pair: Pair, sides: tuple[Numbers, Numbers], verdicts: Sequence[Verdict], top: int | None) -> None:
    trees = {value: pair.view(1, measure) for value, measure in TREES.items()}
    facts = (sides[0].facts, sides[1].facts)
    whole = trees["host_ns"]
    waterfall = whole.payloads.get("waterfall")
    # Tables of traces always exist, even if they are empty.
    found = [name for name, payload in whole.payloads.items() if isinstance(payload, Table)]
    names = dict.fromkeys((*TABLES, *found)) if "call_tree" in whole.payloads else found
    document = {
        "schema_version": SCHEMA_VERSION,
        "baseline": _side(pair.base, pair.base_steps, sides[0], pair.captures[0]),
        "experiment": _side(pair.exp, pair.exp_steps, sides[1], pair.captures[1]),
        "per": pair.per,
        "waterfall": _waterfall(waterfall) if isinstance(waterfall, Breakdown) else None,
        "findings": findings(whole.payloads.values()),
        "facts": {name: _fact(name, *facts) for name in sorted({*facts[0], *facts[1]})},
        "call_tree": {value: _nodes(view.payloads.get("call_tree")) for value, view in trees.items()},
        "tables": {name: pair.rows(name, top) for name in names},
        "gates": [_gate(verdict) for verdict in verdicts],
    }
    write_json(document)


def _side(entry: Entry, steps: str, numbers: Numbers, capture: CaptureInfo | None) -> dict[str, Any]:
    found = entry.files
    named = {which: _name(entry, which) for which in ("run", "worker", "span")}
    said = {"findings": findings(numbers.notices), "data_notices": data_notices(numbers.notices)}
    of_file = {"path": found.url, "steps": steps, "capture": capture}
    return {**named, **of_file, **said, "dismissed": numbers.dismissed}


def _waterfall(payload: Breakdown) -> dict[str, Any]:
    return {
        "baseline_ns": payload.start,
        "experiment_ns": payload.start + payload.total,
        "delta_ns": payload.total,
        "interval": payload.interval,
        "parts": {part.category: part.value for part in payload.parts},
        "intervals": {part.category: part.interval for part in payload.parts},
    }


def _fact(name: str, base: Facts, exp: Facts) -> dict[str, int | float | None]:
    before, after = base.get(name), exp.get(name)
    change = after - before if before is not None and after is not None else None
    return {"baseline": before, "experiment": after, "delta": change}


def _nodes(tree: Payload | None) -> list[dict[str, Any]]:
    if not isinstance(tree, Tree):
        return []
    return [{**row, "parent": above} for row, above in zip(tree.rows, tree.parent, strict=True)]


def _gate(verdict: Verdict) -> dict[str, Any]:
    gate: Gate = verdict.gate
    return {
        "gate": gate.text,
        "fact": gate.fact,
        "baseline": verdict.baseline,
        "experiment": verdict.experiment,
        "change": verdict.change,
        "passed": verdict.passed,
        "interval": verdict.interval,
        "significant": verdict.is_significant,
    }


def _change(verdict: Verdict) -> str:
    if verdict.change is None:
        return "from 0"
    unit: Unit = "ratio" if verdict.gate.relative else "bytes" if verdict.gate.fact.endswith("_bytes") else "ns"
    text = format_value(verdict.change, unit)
    return f"+{text}" if verdict.change > 0 else text


def _described(entry: Entry, steps: str) -> str:
    return f"{entry.files.url}{f' (steps {steps})' if steps else ''}"
