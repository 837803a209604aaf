"""Decoder that discovers argument names while reading.

msgspec silently skips members that a Struct does not declare. Therefore the Struct forbids unknown members. If an
event has new argument names, decoding fails, the names become fields, and the text is decoded again. Each field
costs time for every event. Therefore a member of ``Args`` becomes a field only when the file uses it; until then,
it is a class attribute.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from tb_plugin.formats._chrome.events import NOT_DECODED
from tb_plugin.formats._chrome.extra_args import MOST_NAMES
from tb_plugin.formats.kineto.events import Args, BoundDigitEvent, BoundEvent, DigitEvent, Event, arguments, with_series

INTERNAL = frozenset(
    {
        "Ev Idx",
        "cbid",
        "cid",
        "external ts",
        "Trace name",
        "Trace iteration",
        "Op count",
        "Device",
    }
)
"""Arguments not loaded: indices into the profiler's lists, codes that repeat a name, and ``Device`` (the process, 2021)."""
KNOWN_FIELDS = {field.encode_name: field for field in msgspec.structs.fields(Args)}  # by name in the file
_ALWAYS_FIELDS = ("bytes",)  # set by readers from a vendor-specific name
_DEFAULTS = {field.name: field.default for field in KNOWN_FIELDS.values()}
_BINDING = b'"bind_id"'
_BOUND_CATEGORY = "mtia_insight"
_FORBIDDEN_LETTERS = frozenset('\\"')

# base class whose class attributes are the defaults of all fields of ``Args``
_AllDefaults: Any = msgspec.defstruct("Unstated", [], namespace=_DEFAULTS, gc=False)


class _Absent:
    """Default value of a discovered argument. Each argument has a separate object, compared by identity."""


class Learned(msgspec.Struct, frozen=True):
    """An argument that the file contains but that is not a field of ``Args``."""

    key: str  # name in the file
    field: str  # name in the Struct
    absent: Any
    is_raw: bool  # some values are lists or objects, so all stay text


class DecodingState(NamedTuple):
    learned: list[tuple[str, bool]]  # key, is_raw
    used: list[str]
    binds: bool
    is_unusual: bool  # some arguments are left out, or no more can be learned


class Decoding:
    """Decodes the events of one file."""

    def __init__(self) -> None:
        self.no_args: Args = Args()  # missing or null arguments; has all fields of the last decoding
        self.binds = False  # some events have a bind_id (``BoundEvent``)
        self.left_out = False  # some arguments have too many names, or names that cannot become fields
        self._is_full = False
        self._used: dict[str, msgspec.structs.FieldInfo] = {name: KNOWN_FIELDS[name] for name in _ALWAYS_FIELDS}
        self._learned: dict[str, Learned] = {}
        self._counts: Counter[str] = Counter()
        self._witness = _Absent()
        # key: (times are raw digits, unknown names are refused)
        self._decoders: dict[tuple[bool, bool], msgspec.json.Decoder[Any]] = {}

    def __call__(self, text: bytes | memoryview, digits: bool) -> Sequence[Event]:
        """Returns the events of a JSON list. Raises one of NOT_DECODED."""
        for _ in range(2 * MOST_NAMES):
            try:
                events = self._decode_counted(text, digits, not self._is_full)
                if not self.binds and _BOUND_CATEGORY in {event.cat for event in events} and _BINDING in bytes(text):
                    self.binds = True  # these fields cost time for every event, so they are added only if used
                    self._decoders.clear()
                    continue
                return with_series(events, text)
            except msgspec.ValidationError:
                if not self._learn(text):
                    break
        events = with_series(self._decode_counted(text, digits, strict=False), text)
        self.left_out = True  # the only problem: names that cannot become fields
        self._is_full = len(self._learned) >= MOST_NAMES
        return events

    def take_new_arguments(self) -> list[tuple[Learned, int]]:
        """Returns the arguments discovered since the last call, except INTERNAL, and the number of events with each."""
        counts, self._counts = self._counts, Counter()
        return [(learned, counts[key]) for key, learned in self._learned.items() if counts[key] and key not in INTERNAL]

    def all_learned(self) -> list[tuple[Learned, int]]:
        """Returns all discovered arguments, for begin and end events. Counts are unknown, so they are sys.maxsize."""
        return [(learned, sys.maxsize) for key, learned in self._learned.items() if key not in INTERNAL]

    def state(self) -> DecodingState:
        learned = [(each.key, each.is_raw) for each in self._learned.values()]
        return DecodingState(learned, list(self._used), self.binds, self.left_out or self._is_full)

    def can_merge(self, before: DecodingState, after: DecodingState, texts: Collection[str]) -> bool:
        """Returns False if a read in this process could differ. ``before``, ``after``: states around the piece.

        ``texts`` are the arguments with text in the piece. Their order is the order of new text ids.
        """
        merged = list(dict.fromkeys([*self._learned, *(key for key, _ in after.learned)]))
        keys = [key for key, _ in after.learned if key in texts]
        is_same = keys == [key for key in merged if key in keys]
        return before.binds == self.binds and is_same and len(merged) < MOST_NAMES

    def merge(self, after: DecodingState) -> None:
        """Adds the names that a process discovered in a piece."""
        for key, is_raw in after.learned:
            if key not in self._learned or is_raw > self._learned[key].is_raw:
                self._set_learned(key, is_raw)
                self._decoders.clear()
        if not self._used.keys() >= set(after.used) or self.binds != after.binds:
            self._used |= {name: KNOWN_FIELDS[name] for name in after.used}
            self.binds = after.binds
            self._decoders.clear()

    def _decode_counted(self, text: bytes | memoryview, digits: bool, strict: bool) -> Any:
        """Decodes a text, and counts the events that have each discovered argument.

        The counts come from reference counts, which is faster than a loop. Every event refers to ``_witness``. An
        event without the argument also refers to the argument's ``absent`` object. The difference is the number of
        events with the argument. If the interpreter has no reference counts, that number is the number of all
        events.
        """
        decoder = self._decoders.get((digits, strict)) or self._decoder(digits, strict)
        before = [sys.getrefcount(learned.absent) for learned in self._learned.values()]
        witnessed = sys.getrefcount(self._witness)
        events = decode(decoder, text)
        structs = sys.getrefcount(self._witness) - witnessed
        for learned, count in zip(self._learned.values(), before, strict=True):
            self._counts[learned.key] += structs - (sys.getrefcount(learned.absent) - count) if structs else len(events)
        return events

    def _learn(self, text: bytes | memoryview) -> bool:
        try:
            found = [msgspec.json.decode(raw, type=dict[str, msgspec.Raw]) for raw in arguments(text) if raw != b"null"]
        except NOT_DECODED:
            return False
        used = {
            key: KNOWN_FIELDS[key] for args in found for key in args if key in KNOWN_FIELDS and key not in self._used
        }
        self._used |= used
        known = KNOWN_FIELDS.keys() | self._learned.keys()
        new: dict[str, bool] = {}
        for args in found:
            for key in sorted(args.keys() - known, key=list(args).index):
                new[key] = new.get(key, False) or _is_nested(args[key])
        room = MOST_NAMES - len(self._learned)
        new = dict([(key, is_raw) for key, is_raw in new.items() if _can_be_field(key)][:room])
        if not new and not used:  # a learned argument now has a list or an object as its value
            nested = {key for args in found for key, raw in args.items() if key in self._learned and _is_nested(raw)}
            new = {key: True for key in self._learned if key in nested and not self._learned[key].is_raw}
        for key, is_raw in new.items():
            self._set_learned(key, is_raw)
        if new or used:
            self._decoders.clear()
        return bool(new or used)

    def _set_learned(self, key: str, is_raw: bool) -> None:
        old = self._learned.get(key)
        field, absent = (f"other{len(self._learned)}", _Absent()) if old is None else (old.field, old.absent)
        self._learned[key] = Learned(key, field, absent, is_raw)

    def _decoder(self, digits: bool, strict: bool) -> msgspec.json.Decoder[Any]:
        scalar: Any = int | float | str | bool | None
        fields: list[tuple[str, Any, Any]] = [
            (one.field, msgspec.Raw if one.is_raw else scalar, msgspec.field(default=one.absent, name=one.key))
            for one in self._learned.values()
        ]
        fields.append(("witness", Any, msgspec.field(default=self._witness, name="(witness)")))
        own = (
            self._used if strict else KNOWN_FIELDS
        )  # a lenient decoder skips unknown names silently, so it needs all fields
        fields += [
            (one.name, one.type, msgspec.field(default=one.default, name=one.encode_name)) for one in own.values()
        ]
        args: Any = msgspec.defstruct("FileArgs", fields, bases=(_AllDefaults,), forbid_unknown_fields=strict, gc=False)
        self.no_args = args()
        base: Any = DigitEvent if digits else Event
        if self.binds:
            base = BoundDigitEvent if digits else BoundEvent
        event: Any = msgspec.defstruct("FileEvent", [("args", args | None, None)], bases=(base,), gc=False)
        decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(list[event])
        self._decoders[digits, strict] = decoder
        return decoder


def _can_be_field(key: str) -> bool:
    return not any(letter in _FORBIDDEN_LETTERS or letter < " " for letter in key)


def _is_nested(raw: msgspec.Raw) -> bool:
    return bytes(memoryview(raw)[:1]) in (b"[", b"{")


def decode(decoder: msgspec.json.Decoder[Any], text: bytes | memoryview) -> Any:
    return decoder.decode(text)


def argument_values(args: Sequence[Any], learned: Learned) -> list[Any]:
    """Returns the value of a discovered argument for each event; ``learned.absent`` = missing."""
    try:
        return list(map(attrgetter(learned.field), args))
    except AttributeError:  # begin events decoded before the name was learned lack the field
        return [getattr(each, learned.field, learned.absent) for each in args]
