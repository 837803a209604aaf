"""Search queries: text, patterns and fields, joined by AND."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from tb_plugin.analysis.base import contains_text
from tb_plugin.analysis.communication import is_communication
from tb_plugin.analysis.graphs.origins import origins_of
from tb_plugin.analysis.kernel_labels import kernel_label
from tb_plugin.analysis.range_patterns import MODULE_PREFIXES
from tb_plugin.analysis.thread_and_stream_names import stream_text, track_names
from tb_plugin.errors import BadRequest
from tb_plugin.lib.arrays import Bool, Int32, Int64
from tb_plugin.model.trace.schema import MISSING, EventKind, of_kind
from tb_plugin.model.trace.strings import StringTable
from tb_plugin.model.trace.table import TraceTable
from tb_plugin.model.trace.tree import inherit

FIELDS = ("dur", "kind", "stream", "thread", "op", "name", "arg.KEY")
PLACES = ("names", "args", "all", "first")
"""Where to search text. ``first`` searches names and, if no name contains the text, arguments."""
MAX_QUERY_CHARS = 2000
MAX_TERMS = 20
# Texts that a message lists.
_MOST_LISTED = 30
_COMMUNICATION = "communication"
_UNITS_NS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9}
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    ":": operator.eq, "=": operator.eq, ">": operator.gt, "<": operator.lt, ">=": operator.ge, "<=": operator.le,
}  # fmt: skip
_SIGN = r"(?P<sign>>=|<=|>|<|=|:(?!:))"
_VALUE = r'(?P<value>/.*?/(?=\s|$)|"[^"]*"|\S*)'
_FIELD = re.compile(rf'\s*(?P<field>dur|kind|stream|thread|op|name|arg\.(?:"[^"]+"|[\w.\-]*))\s*{_SIGN}\s*{_VALUE}')
# ``-term`` excludes; ``->`` is text.
_NOT = re.compile(r'\s*-(?=[A-Za-z_/"])')
_TEXT = re.compile(r'\s*(?P<value>/.*?/(?=\s|$)|"[^"]*"|\S+)')
# Text that looks like a field: ``word:text``, or any word compared with a duration.
_UNKNOWN_FIELD = re.compile(r"(?P<field>[a-z][a-z_.]*)(?::(?!:)|=)\S|(?P<other>\w+)[<>]=?[0-9.]+(?:ns|us|µs|ms|s)?$")
_DURATION = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*([a-zµμ]*)")
_NUMBER = re.compile(r"-?[0-9]{1,18}(?:\.[0-9]{1,15})?")
# Texts of the side tables, by section of the trace table.
_TEXTS = {
    "operators": ("shapes", "types", "strides", "concrete", "stack"),
    "device_args": ("stream", "grid", "block"),
    "collectives": ("name", "dtype", "group_name", "group_description", "group_ranks"),
}
_SECTIONS = (*_TEXTS, "python")
_Rows = Int32 | slice
_Argument = tuple[_Rows, npt.NDArray[Any], bool]


class Term(msgspec.Struct, frozen=True):
    """One condition of a query. A term without a field is text that a name or an argument contains."""

    text: str
    """The term as written."""
    field: str = ""
    key: str = ""
    """Argument of the field ``arg``."""
    sign: str = ":"
    value: str = ""
    excludes: bool = False
    """Whether the events that match are left out."""

    def __str__(self) -> str:
        return self.text if len(self.text) <= 60 else f"{self.text[:60]}…"


def parse_query(text: str) -> tuple[Term, ...]:
    """Returns the terms of a query. Raises BadRequest for an unknown field, a field without a value, or a long query."""
    if len(text) > MAX_QUERY_CHARS:
        raise BadRequest("The query is too long.", "search", f"Use at most {MAX_QUERY_CHARS} characters.")
    terms, at, end = [], 0, len(text.rstrip())
    while at < end:
        minus = _NOT.match(text, at)
        at = minus.end() if minus else at
        found = _FIELD.match(text, at) or _TEXT.match(text, at)
        assert found is not None
        term = _term(found)
        terms.append(replace(term, text=f"-{term.text}", excludes=True) if minus else term)
        at = found.end()
    if len(terms) > MAX_TERMS:
        raise BadRequest("The query has too many terms.", "search", f"Use at most {MAX_TERMS} terms.")
    return tuple(terms)


def _term(found: re.Match[str]) -> Term:
    parts, text = found.groupdict(), found.group().strip()
    value = parts["value"]
    plain = value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else value
    if "field" not in parts:
        unknown = None if plain != value else _UNKNOWN_FIELD.match(value)
        if unknown:
            name = unknown["field"] or unknown["other"]
            raise BadRequest(
                f"{text[:60]}: {name} is not a field.", "search",
                f'Fields: {", ".join(FIELDS)}. To search for this text, write "{text[:60]}".',
            )  # fmt: skip
        return Term(text, value=plain)
    field, _, key = parts["field"].partition(".")
    return Term(text, field, key.strip('"'), parts["sign"], plain)


def matching_query(trace: TraceTable, query: str, place: str = "first") -> Bool:
    """Returns the events that match all terms of a query.

    ``place`` is one of ``PLACES``; it applies to terms without a field. Raises BadRequest for a query that is not
    valid, or that names a kind, stream or argument that the trace does not have.
    """
    found = np.ones(len(trace), np.bool_)
    for term in parse_query(query):
        hits = _FIELD_MATCHERS[term.field](trace, term) if term.field else _matching_text(trace, place, term.value)
        found &= ~hits if term.excludes else hits
    return found


def _matching_text(trace: TraceTable, place: str, text: str) -> Bool:
    found = containing(trace, "names" if place == "first" else place, text)
    return containing(trace, "args", text) if place == "first" and not found.any() else found


def containing(trace: TraceTable, place: str, search: str, exact: bool = False) -> Bool:
    """Returns the events whose name or arguments contain a text or, if ``exact``, are equal to it.

    A kernel is also found by its short name, unless ``exact``.
    """
    everywhere: _Rows = slice(None)
    texts: list[tuple[_Rows, Int32]] = []
    if place != "args":
        texts.append((everywhere, trace.name))
    if place != "names":
        texts.append((everywhere, trace.category))
        for section, keys in _TEXTS.items():
            args = getattr(trace, section)
            texts += [(args.row, getattr(args, key)) for key in keys]
        texts += [(column.row, column.value) for column in trace.others if column.is_text]
    hits = _hit_strings(trace.strings, [ids for _, ids in texts], search, exact)
    found = np.zeros(len(trace), np.bool_)
    for rows, ids in texts:
        found[rows] |= hits[ids]
    if place != "args" and not exact:
        found |= _label_hits(trace, search)[trace.name]
    for column in trace.others if place != "names" else ():
        if not column.is_text:
            found[column.row] |= _equal_numbers(column.value, search)
    return found


def _equal_numbers(values: npt.NDArray[Any], search: str) -> Bool:
    distinct, which = np.unique(values, return_inverse=True)
    hits: Bool = np.array([str(value) == search for value in distinct.tolist()], np.bool_)[which]
    return hits


def _hit_strings(strings: StringTable, columns: Sequence[npt.NDArray[Any]], search: str, exact: bool) -> Bool:
    """Returns whether each string id matches and occurs in one of the columns. The last entry is for id -1."""
    used = np.zeros(len(strings) + 1, np.bool_)
    for ids in columns:
        used[ids] = True
    used[-1] = False
    distinct = np.flatnonzero(used)
    texts = strings.array.take(pa.array(distinct))
    if exact:
        # As in the filter by name, modules also match without their prefix.
        wanted = pa.array([prefix + search for prefix in ("", *MODULE_PREFIXES)], texts.type)
        hits = pc.is_in(texts, wanted).to_numpy(zero_copy_only=False)
    else:
        hits = contains_text(texts, search)
    used[distinct] = hits
    return used


def _label_hits(trace: TraceTable, search: str) -> Bool:
    """Returns whether each string id is the name of a kernel whose short name matches."""
    found = np.zeros(len(trace.strings) + 1, np.bool_)
    found[trace.name[trace.kind == EventKind.KERNEL]] = True
    found[-1] = False
    distinct = np.flatnonzero(found)
    labels = [kernel_label(name) for name in trace.strings.array.take(pa.array(distinct)).to_pylist()]
    found[distinct] = contains_text(pa.array(labels, pa.string()), search)
    return found


def _text_hits(trace: TraceTable, term: Term, ids: npt.NDArray[np.integer]) -> Bool:
    """Returns whether each string id of a column has the text of a term; ``=`` compares whole texts."""
    return _hit_strings(trace.strings, [ids], _text_of(term), term.sign == "=")


def _text_of(term: Term) -> str:
    if term.sign not in ":=":
        raise BadRequest(f"{term}: texts cannot be compared with {term.sign}", "search", f"Write {term.field}:text.")
    if not term.value:
        raise BadRequest(
            f"{term}: a value is missing.", "search", f"Write {term.field}:text or {term.field}:/pattern/."
        )
    return term.value


def _name(trace: TraceTable, term: Term) -> Bool:
    hits = _text_hits(trace, term, trace.name)
    if term.sign != "=":
        hits |= _label_hits(trace, term.value)
    return hits[trace.name]


def _operator(trace: TraceTable, term: Term) -> Bool:
    """Returns the operators with the name, and all events inside these calls, including their device work."""
    operators = np.flatnonzero(trace.kind == EventKind.OPERATOR)
    scopes = origins_of(trace).scopes
    hits = _text_hits(trace, term, np.concatenate((trace.name[operators], scopes.name)))
    inside = _inside(hits[trace.name] & (trace.kind == EventKind.OPERATOR), trace.operator)
    # Replayed work is inside the operators of its capture.
    work = origins_of(trace).work
    captured = _inside(hits[scopes.name] & (scopes.kind == EventKind.OPERATOR), scopes.parent)
    inside[work] |= np.append(captured, False)[origins_of(trace).scope]
    return inside


def _inside(own: Bool, parent: Int32) -> Bool:
    found: Bool = inherit(np.where(own, 0, MISSING).astype(np.int32), parent) != MISSING
    return found


def _kind(trace: TraceTable, term: Term) -> Bool:
    collective = is_communication(trace)
    present = [kind.name.lower() for kind in EventKind if (trace.kind == kind).any()]
    present += [_COMMUNICATION] if collective.any() else []
    value = term.value.lower()
    if term.sign not in ":=" or value not in (*(kind.name.lower() for kind in EventKind), _COMMUNICATION):
        raise _unknown(term, "kind", present)
    return collective if value == _COMMUNICATION else of_kind(trace.kind, EventKind[value.upper()])


def _stream(trace: TraceTable, term: Term) -> Bool:
    streams = [stream_text(track) if track.is_device else None for track in trace.tracks]
    value = term.value.strip()
    if term.sign not in ":=" or value not in streams:
        raise _unknown(term, "stream", sorted({name for name in streams if name}, key=lambda name: (len(name), name)))
    return _on_tracks(trace, (name == value for name in streams))


def _thread(trace: TraceTable, term: Term) -> Bool:
    names, value = track_names(trace), _text_of(term)
    labels = pa.array([name.label for name in names], pa.string())
    found = labels.to_numpy(zero_copy_only=False) == value if term.sign == "=" else contains_text(labels, value)
    if term.sign == "=":
        found |= np.array([name.title == value for name in names], np.bool_)
    return _on_tracks(trace, found)


def _on_tracks(trace: TraceTable, flags: Iterable[bool]) -> Bool:
    found: Bool = np.fromiter(flags, np.bool_, len(trace.tracks))[trace.track]
    return found


def _dur(trace: TraceTable, term: Term) -> Bool:
    found = _DURATION.fullmatch(term.value.strip())
    if found is None or found[2] not in _UNITS_NS:
        raise BadRequest(
            f"{term}: {'the unit' if found and not found[2] else 'the duration'} is missing or not valid.", "search",
            "Write a number with ns, us, ms or s, such as dur>100us.",
        )  # fmt: skip
    return _compared(trace.dur_ns, term.sign, Decimal(found[1]) * _UNITS_NS[found[2]])


def _compared(values: npt.NDArray[Any], sign: str, bound: Decimal) -> Bool:
    """Compares numbers with a bound; integers exactly."""
    if values.dtype.kind not in "iu":
        compared: Bool = _COMPARE[sign](values, float(bound))
        return compared
    # Rounding the bound does not change comparisons with integers.
    whole = math.ceil(bound) if sign in ("<", ">=") else math.floor(bound)
    if sign in (":", "=") and whole != bound:
        return np.zeros(len(values), np.bool_)
    found: Bool = _COMPARE[sign](values, whole)
    return found


def _argument(trace: TraceTable, term: Term) -> Bool:
    every, key = dict[str, list[_Argument]](), _plain(term.key)
    for name, argument in _arguments(trace):
        every.setdefault(_plain(name), []).append(argument)
    if key not in every:
        raise _unknown(term, "argument", sorted(every))
    found = np.zeros(len(trace), np.bool_)
    for rows, values, is_text in every[key]:
        found[rows] |= _argument_hits(trace, term, values, is_text)
    return found


def _argument_hits(trace: TraceTable, term: Term, values: npt.NDArray[Any], is_text: bool) -> Bool:
    if is_text:
        if term.value.startswith("[") and term.sign in ":=":
            # Shapes and grids are recorded with a space after each comma.
            term = replace(term, value=re.sub(r",\s*", ", ", term.value))
        hits: Bool = _text_hits(trace, term, values)[values]
        return hits
    if not _NUMBER.fullmatch(term.value):
        raise BadRequest(
            f"{term}: this argument is a number.", "search", f"Write arg.{term.key}=8 or arg.{term.key}>8."
        )
    found: Bool = _compared(values, term.sign, Decimal(term.value)) & (values != MISSING)
    return found


def _arguments(trace: TraceTable) -> Iterator[tuple[str, _Argument]]:
    for section in _SECTIONS:
        args = getattr(trace, section)
        for field in args.__struct_fields__[1:] if len(args.row) else ():
            is_text = field in (*_TEXTS.get(section, ()), "direction")
            name = "collective" if (section, field) == ("collectives", "name") else field
            if (getattr(args, field) != MISSING).any():
                yield name, (args.row, getattr(args, field), is_text)
    for column in trace.others:
        yield column.key, (column.row, column.value, column.is_text)
    for name in ("correlation", "external_id"):
        ids: Int64 = getattr(trace, name)
        yield name, (slice(None), np.where(ids > 0, ids, MISSING), False)


def _plain(key: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", key.lower()).strip("_")


def _unknown(term: Term, what: str, known: Sequence[str]) -> BadRequest:
    listed = ", ".join(known[:_MOST_LISTED]) + ("…" if len(known) > _MOST_LISTED else "")
    return BadRequest(
        f"{term}: the trace has no such {what}."
        if term.value or what == "argument"
        else f"{term}: a value is missing.",
        "search",
        f"{what.capitalize()}s: {listed or 'none'}.",
    )


_FIELD_MATCHERS: dict[str, Callable[[TraceTable, Term], Bool]] = {
    "dur": _dur,
    "kind": _kind,
    "stream": _stream,
    "thread": _thread,
    "op": _operator,
    "name": _name,
    "arg": _argument,
}
