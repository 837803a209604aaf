"""Number formatting for the terminal, with three significant digits.

Columns of one family have the same unit. frontend/src/lib/format.ts formats numbers in the same way. Both must pass
tests/format_cases.json.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, tzinfo
from decimal import ROUND_HALF_UP, Decimal
from math import isfinite

import msgspec

from tb_plugin.payloads import Metric, Scalar, Unit

DASH = "–"
# From this value on, a ratio reads "12.5 times" instead of "1,250.0 %".
_TIMES_FROM = 10
_TIMES = " times"
_TIME = ((1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s"))
_BYTES = ((1.0, "B"), (2.0**10, "KiB"), (2.0**20, "MiB"), (2.0**30, "GiB"), (2.0**40, "TiB"))
_RATE = ((1.0, "B/s"), (1e3, "kB/s"), (1e6, "MB/s"), (1e9, "GB/s"), (1e12, "TB/s"))
_LADDERS: dict[str, tuple[tuple[float, str], ...]] = {
    "ns": _TIME,
    "bytes": _BYTES,
    "bytes_per_second": _RATE,
    "watts": ((1.0, "W"),),
    "celsius": ((1.0, "°C"),),
    "hertz": ((1e6, "MHz"),),  # clock rates of processors are compared in MHz
}

# A column named ``latency`` is the sum over all calls, not that of one call.
_ONE = re.compile(
    r"(^|_)(mean|min|max|p\d+|median|longest|shortest|dur|delay|lifetime|lateness|skew|residual|latency_(low|high))(_|$)"
    r"|_latency(_|$)"
)
_UPKEEP = re.compile(r"(^|_)(guard|wrapper|break)_ns$")
_BEFORE = re.compile(r"^before_")
# Present in tables of events: the parts of an event add up to it.
_OF_EVENT = "dur_ns"
_MOMENT = re.compile(r"(^|_)(at|time|start|end|hit|moment|issued|needed)_ns$")

# Control and bidirectional characters that JSON does not escape: C1, soft hyphen, bidi, separators, BOM.
_HIDDEN = re.compile(
    "[\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]"
)


class Scale(msgspec.Struct, frozen=True):
    """The unit in which a number or a column is displayed: ``value / factor``, followed by ``symbol``."""

    unit: Unit
    factor: float
    symbol: str


def scale_for(unit: Unit, largest: float) -> Scale:
    if unit == "ratio":
        return Scale(unit, 0.01, "%")
    ladder = _LADDERS.get(unit)
    if ladder is None:
        return Scale(unit, 1.0, "")
    fitting = [rung for rung in ladder if float(f"{abs(largest) / rung[0]:.3g}") >= 1]
    factor, symbol = fitting[-1] if fitting else ladder[0]
    return Scale(unit, factor, symbol)


def column_scale(unit: Unit, values: Iterable[Scalar]) -> Scale:
    """Returns the scale for all values of a column.

    Normally the scale fits the largest value. A smaller unit is used if the smallest value would be rounded to 0
    and the largest value stays short in that unit.
    """
    sizes = [abs(v) for v in values if isinstance(v, (int, float)) and not isinstance(v, bool) and v and isfinite(v)]
    scale = scale_for(unit, max(sizes, default=0))
    smaller = [rung for rung in _LADDERS.get(unit, ()) if rung[0] < scale.factor]
    longest = 10_000 if unit == "ns" else 100_000
    if not smaller or min(sizes) / scale.factor >= 0.01 or max(sizes) / smaller[-1][0] >= longest:
        return scale
    return Scale(unit, *smaller[-1])


def family_of(key: str, unit: Unit) -> str:
    """Returns the family of a column. Columns of one family in a table have the same scale.

    The families are sums, single events, times, overhead, and times before an event.
    """
    if unit not in _LADDERS:
        return key
    families = (("one", _ONE), ("moment", _MOMENT), ("upkeep", _UPKEEP), ("before", _BEFORE))
    return f"{unit} {next((name for name, told in families if told.search(key)), 'sum')}"


def family_scales(metrics: Sequence[Metric], values_of: Callable[[str], Iterable[Scalar]]) -> list[Scale]:
    """Returns one scale per column, the same within a family; parts of an event use that of its duration."""
    families = [family_of(metric.key, metric.unit) for metric in metrics]
    if any(metric.key == _OF_EVENT for metric in metrics):
        families = ["ns one" if family == "ns sum" else family for family in families]
    values: dict[str, list[Scalar]] = {}
    for metric, family in zip(metrics, families, strict=True):
        values.setdefault(family, []).extend(values_of(metric.key))
    return [column_scale(metric.unit, values[family]) for metric, family in zip(metrics, families, strict=True)]


def format_number(value: Scalar, scale: Scale, zone: tzinfo | None = None) -> str:
    """Formats a number as in a table cell, without its unit."""
    if value is None:
        return DASH
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value or DASH
    if not isfinite(value):
        return DASH
    if scale.unit == "ratio":
        return _percent(value)
    if scale.unit == "unix_ms":
        return format_time(int(value), zone)
    scaled = value / scale.factor
    if value == 0 or (scale.factor == 1 and scaled == int(scaled)):
        return _grouped(value, 0)
    if abs(scaled) < 0.0005:
        return ">-0.001" if value < 0 else "<0.001"
    return _grouped(scaled, _decimals(abs(scaled)))


def format_change(value: Scalar, scale: Scale) -> str:
    """Formats a change like ``format_number``, with a plus sign. A change too small to be shown is about 0."""
    text = format_number(value, scale)
    if text[0] in "<>":
        return "≈0"
    grew = isinstance(value, (int, float)) and value > 0 and text[0].isdigit()
    return f"+{text}" if grew else text


def format_value(value: Scalar, unit: Unit, scale: Scale | None = None, zone: tzinfo | None = None) -> str:
    """Formats a value and its unit. By default, the scale fits the value."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    used = scale or column_scale(unit, [value])
    text = format_number(value, used, zone)
    return f"{text} {used.symbol}" if used.symbol and is_number and text != DASH and not text.endswith(_TIMES) else text


def format_range(low: float, high: float, unit: Unit) -> str:
    """Formats ``59.0 to 60.1 ms`` in the unit of the upper bound, or one number if both look the same."""
    scale = scale_for(unit, high)
    first, last = (format_number(value, scale) for value in (low, high))
    upper = f"{last} {scale.symbol}".rstrip()
    return upper if first == last else f"{first} to {upper}" if low else f"up to {upper}"


def format_time(unix_ms: int, zone: tzinfo | None = None) -> str:
    """Formats wall-clock time as ``2026-11-20 14:03:12``. The default is the local time zone."""
    return datetime.fromtimestamp(unix_ms // 1000, zone).strftime("%Y-%m-%d %H:%M:%S")


def _decimals(size: float) -> int:
    return 0 if size >= 99.95 else 1 if size >= 9.995 else 2 if size >= 0.9995 else 3


def _percent(ratio: float) -> str:
    if abs(ratio) >= _TIMES_FROM:
        return _grouped(ratio, 0 if ratio == int(ratio) else _decimals(abs(ratio))) + _TIMES
    shown = ratio * 100
    if shown != 0 and abs(shown) < 0.05:
        return ">-0.1" if ratio < 0 else "<0.1"
    return _grouped(shown, 1)


def _grouped(value: float, decimals: int) -> str:
    # Halves are rounded up, as in the browser. repr() gives the shortest digits.
    rounded = Decimal(repr(value)).quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP)
    return f"{rounded:,.{decimals}f}"


def fill(template: str, values: Mapping[str, str]) -> str:
    """Replaces ``{key}`` placeholders by values. Unknown placeholders are not changed; ``{per_step}`` is removed."""
    known = {"per_step": "", **values}  # sums are not divided here
    return re.sub(r"\{([^{}]+)\}", lambda match: known.get(match.group(1), match.group(0)), template)


def printable(text: str) -> str:
    r"""Escapes control characters and bidirectional marks, such as ``\x1b``."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if unicodedata.category(c) == "Zs" else ascii(c)[1:-1] for c in text)


def json_bytes(document: object) -> bytes:
    r"""Encodes a document as JSON. Control characters and bidirectional marks become ``\uXXXX``."""
    text = msgspec.json.encode(document).decode()
    return (text if text.isprintable() else _HIDDEN.sub(_escape, text)).encode()


def _escape(match: re.Match[str]) -> str:
    units = match.group().encode("utf-16-be")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))
