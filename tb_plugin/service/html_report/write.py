"""The HTML file of a report, written from a template."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

import tb_plugin
from tb_plugin.errors import NotFoundError
from tb_plugin.payloads import Profile, Report
from tb_plugin.service.html_report.collect import Wanted, collect, names_of
from tb_plugin.service.html_report.redact import redactor_of
from tb_plugin.service.workspace import Workspace

MAX_BYTES = 5_000_000
TEMPLATE = Path(tb_plugin.__file__).parent / "static" / "report.html"
# In the template, within <script type="application/json">.
PLACEHOLDER = b"__TORCH_TRACE_REPORT__"
# Characters of a text, such as the name of a kernel.
_MAX_TEXT = 2_000
_ESCAPES = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}
# Rows per table and events of the timeline are divided by each of these until the file is small enough.
_DIVISORS = (1, 2, 5, 20, 100)


def html_report(workspace: Workspace, wanted: Wanted, path: str, redact: bool, waits: bool = False) -> bytes | Profile:
    """Returns the file, or the loading state of a profile. Raises UserError. ``waits``: see ``collect``."""
    template = _template()
    for divisor in _DIVISORS:
        less = replace(wanted, rows=max(1, wanted.rows // divisor), events=max(1, wanted.events // divisor))
        report = collect(workspace, less, path, waits)
        if isinstance(report, Profile):
            return report
        content = template.replace(PLACEHOLDER, encoded(redacted(workspace, report) if redact else report))
        if len(content) <= MAX_BYTES:
            break
    return content


def redacted(workspace: Workspace, report: Report) -> dict[str, Any]:
    profile = replace(report.profile, capture=None)  # its names are paths
    data = _shortened(msgspec.to_builtins(replace(report, path="", is_redacted=True, profile=profile)))
    runs, workers, paths = zip(*names_of(workspace), strict=True)
    redacted_data: dict[str, Any] = redactor_of(data, runs, workers, (*paths, report.path)).data(data)
    return redacted_data


def encoded(report: Report | dict[str, Any]) -> bytes:
    """Returns JSON that cannot end its script element."""
    data = _shortened(msgspec.to_builtins(report))
    return msgspec.json.encode(data).decode().translate(_ESCAPES).encode()


def _shortened(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= _MAX_TEXT else f"{value[:_MAX_TEXT]}…"
    if isinstance(value, list):
        return [_shortened(one) for one in value] if value and not isinstance(value[0], int | float) else value
    if isinstance(value, dict):
        return {key: _shortened(one) for key, one in value.items()}
    return value


def _template() -> bytes:
    try:
        content = TEMPLATE.read_bytes()
    except OSError:
        content = b""
    if content.count(PLACEHOLDER) != 1:
        raise NotFoundError("The template of the HTML report is missing.", str(TEMPLATE), "Run make build.")
    return content
