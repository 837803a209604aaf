"""Decoding that leaves no argument out: it learns the names that a file uses, those of ``Args`` and any others.

msgspec skips a member that a Struct does not have, and says nothing. So the Struct of a file has no unknown members: the
first event that states one does not decode, its names become fields, and the text is decoded again. A file costs as many
failed attempts as it has moments at which a new name comes up, and from then on what its own fields cost: each field that
a Struct has is filled in every event, so that those of ``Args`` that no event states are attributes of the class alone.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

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
"""Names of the recorder's own numbering: the place in its lists, codes of calls that the name says, and of operators of 2021
the process once more (``Device``). Not kept."""
KNOWN = {field.encode_name: field for field in msgspec.structs.fields(Args)}
"""Arguments with a field of their own, by their names in the file."""
_WRITTEN = ("bytes",)
"""Names of arguments that readers set where a vendor calls them otherwise: a Struct always has them."""
_NOTHING_STATED = {field.name: field.default for field in KNOWN.values()}
_BINDING = b'"bind_id"'
_BOUND_CATEGORY = "mtia_insight"
_CANNOT_BE_NAMED = frozenset('\\"')


_Unstated: Any = msgspec.defstruct("Unstated", [], namespace=_NOTHING_STATED, gc=False)
"""Has all of ``Args`` as attributes of the class: what an event says that states nothing."""


class _Absent:
    """Stands in a learned field of an event that does not state it. Compared by identity, one for each name."""


@dataclass(frozen=True)
class Learned:
    """An argument that the file states and ``Args`` has no field for."""

    key: str
    """Its name in the file."""
    field: str
    """Its name in the Struct."""
    absent: Any
    is_raw: bool
    """Lists or objects were met under it: it is kept as text and not built."""


class Decoding:
    """The decoder of one file. Call it with a JSON list of events."""

    def __init__(self) -> None:
        self.no_args: Args = Args()
        """Stands for absent or null arguments; has all fields of those that were decoded last."""
        self.binds = False
        """Events were met that are bound to others by an id of their own (``BoundEvent``)."""
        self.left_out = False
        """Arguments were met under more names than are learned, or under names that cannot be."""
        self._is_full = False
        self._used: dict[str, msgspec.structs.FieldInfo] = {name: KNOWN[name] for name in _WRITTEN}
        self._learned: dict[str, Learned] = {}
        self._met: Counter[str] = Counter()
        self._witness = _Absent()
        self._decoders: dict[tuple[bool, bool], msgspec.json.Decoder[Any]] = {}
        """By whether times are digits, and unknown names are refused; made when they are needed."""

    def __call__(self, text: bytes | memoryview, digits: bool) -> Sequence[Event]:
        """Returns the events. Raises one of NOT_DECODED."""
        for _ in range(2 * MOST_NAMES):
            try:
                events = self._noted(text, digits, not self._is_full)
                if not self.binds and _BOUND_CATEGORY in {event.cat for event in events} and _BINDING in bytes(text):
                    self.binds = True  # fields that all events would pay for, so no other file has them
                    self._decoders.clear()
                    continue
                return with_series(events, text)
            except msgspec.ValidationError:
                if not self._learn(text):
                    break
        events = with_series(self._noted(text, digits, strict=False), text)
        self.left_out = True  # it is the names that no Struct could have, for nothing else is wrong with the text
        self._is_full = len(self._learned) >= MOST_NAMES
        return events

    def take_met(self) -> list[tuple[Learned, int]]:
        """Returns the arguments that events decoded since the last call state, and how many; not the recorder's numbering."""
        met, self._met = self._met, Counter()
        return [(learned, met[key]) for key, learned in self._learned.items() if met[key] and key not in INTERNAL]

    def all_learned(self) -> list[tuple[Learned, int]]:
        """Returns all arguments that marks may state, as often as nobody knows."""
        return [(learned, sys.maxsize) for key, learned in self._learned.items() if key not in INTERNAL]

    def _noted(self, text: bytes | memoryview, digits: bool, strict: bool) -> Any:
        """Decodes, and notes how many events state which learned names.

        Every Struct that does not state a name refers to its ``absent`` object once; nobody ever states that of the witness.
        What the one got less than the other are the events that state the name: that spares a look at each event for each
        name. On an interpreter that does not count references, all are taken to state it.
        """
        decoder = self._decoders.get((digits, strict)) or self._decoder(digits, strict)
        before = [sys.getrefcount(learned.absent) for learned in self._learned.values()]
        witnessed = sys.getrefcount(self._witness)
        events = decoded(decoder, text)
        structs = sys.getrefcount(self._witness) - witnessed
        for learned, count in zip(self._learned.values(), before, strict=True):
            self._met[learned.key] += structs - (sys.getrefcount(learned.absent) - count) if structs else len(events)
        return events

    def _learn(self, text: bytes | memoryview) -> bool:
        """Makes fields of the names that the text uses and the Struct does not have; False when there are none to make."""
        try:
            found = [msgspec.json.decode(raw, type=dict[str, msgspec.Raw]) for raw in arguments(text) if raw != b"null"]
        except NOT_DECODED:
            return False
        used = {key: KNOWN[key] for args in found for key in args if key in KNOWN and key not in self._used}
        self._used |= used
        known = KNOWN.keys() | self._learned.keys()
        new: dict[str, bool] = {}
        for args in found:
            for key in sorted(args.keys() - known, key=list(args).index):
                new[key] = new.get(key, False) or _is_nested(args[key])
        room = MOST_NAMES - len(self._learned)
        new = dict([(key, is_raw) for key, is_raw in new.items() if _can_be_field(key)][:room])
        if not new and not used:  # then a list or an object stands where plain values stood so far
            nested = {key for args in found for key, raw in args.items() if key in self._learned and _is_nested(raw)}
            new = {key: True for key in self._learned if key in nested and not self._learned[key].is_raw}
        for key, is_raw in new.items():
            old = self._learned.get(key)
            field, absent = (f"other{len(self._learned)}", _Absent()) if old is None else (old.field, old.absent)
            self._learned[key] = Learned(key, field, absent, is_raw)
        if new or used:
            self._decoders.clear()
        return bool(new or used)

    def _decoder(self, digits: bool, strict: bool) -> msgspec.json.Decoder[Any]:
        scalar: Any = int | float | str | bool | None
        fields: list[tuple[str, Any, Any]] = [
            (one.field, msgspec.Raw if one.is_raw else scalar, msgspec.field(default=one.absent, name=one.key))
            for one in self._learned.values()
        ]
        fields.append(("witness", Any, msgspec.field(default=self._witness, name="(witness)")))
        own = self._used if strict else KNOWN  # of what is not refused nothing may be missing
        fields += [
            (one.name, one.type, msgspec.field(default=one.default, name=one.encode_name)) for one in own.values()
        ]
        args: Any = msgspec.defstruct("FileArgs", fields, bases=(_Unstated,), forbid_unknown_fields=strict, gc=False)
        self.no_args = args()
        base: Any = DigitEvent if digits else Event
        if self.binds:
            base = BoundDigitEvent if digits else BoundEvent
        event: Any = msgspec.defstruct("FileEvent", [("args", args | None, None)], bases=(base,), gc=False)
        decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(list[event])
        self._decoders[digits, strict] = decoder
        return decoder


def _can_be_field(key: str) -> bool:
    return not any(letter in _CANNOT_BE_NAMED or letter < " " for letter in key)


def _is_nested(raw: msgspec.Raw) -> bool:
    return bytes(memoryview(raw)[:1]) in (b"[", b"{")


def decoded(decoder: msgspec.json.Decoder[Any], text: bytes | memoryview) -> Any:
    """Returns what a decoder makes of a text. Raises one of NOT_DECODED."""
    return decoder.decode(text)


def argument_values(args: Sequence[Any], learned: Learned) -> list[Any]:
    """Returns what each of the arguments states under a learned name, ``learned.absent`` where it does not."""
    try:
        return list(map(attrgetter(learned.field), args))
    except AttributeError:  # those of begin marks were decoded before the name came up
        return [getattr(each, learned.field, learned.absent) for each in args]
