"""Interned names, categories and annotations, as JSON text.

An interned id belongs to one packet sequence (one writer). It is valid until the sequence clears its state.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from google.protobuf.message import DecodeError

from tb_plugin.formats.issues import IssueLog
from tb_plugin.formats.perfetto.schema import Annotation

Value = TypeVar("Value")

MAX_DEPTH = 20  # maximum nesting depth of lists and objects in an annotation
MAX_TEXT_BYTES = 1 << 20  # maximum bytes of a text; event names are shortened to this number of characters
_MAX_CACHED = 50_000  # maximum number of cached annotations; shapes repeat, call numbers do not
_MAX_CACHED_BYTES = 4096
_NAME_TAG, _INT_TAG = 10 << 3 | 2, 4 << 3  # tags of the name and the integer of an annotation
# annotations that are indices into PyTorch's internal lists; they differ in every event and are not loaded
_NUMBERING = (b"R\x06Ev Idx", b"R\x12Record function id")


def remember(known: dict[bytes, Value], raw: bytes, value: Value) -> Value:
    """Returns ``value``, and caches it in ``known`` unless ``raw`` is long. A full cache is emptied first."""
    if len(raw) > _MAX_CACHED_BYTES:
        return value
    if len(known) >= _MAX_CACHED:
        known.clear()
    known[raw] = value
    return value


def clean_text(raw: bytes, log: IssueLog) -> str:
    """Decodes a text of the trace. Logs invalid UTF-8, and texts that had to be shortened."""
    if len(raw) > MAX_TEXT_BYTES:
        log.add("long_text", "repaired", text=f"texts longer than {MAX_TEXT_BYTES:,} bytes were shortened")
        return raw[:MAX_TEXT_BYTES].decode(errors="replace")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        log.add("bad_utf8", "repaired")
        return raw.decode(errors="replace")


def text_json(text: str) -> str:
    return msgspec.json.encode(text).decode()


class Interned:
    """Interned data of one packet sequence."""

    def __init__(self, log: IssueLog, *, of_torch: bool) -> None:
        self.names: dict[int, str] = {}
        self.categories: dict[int, str] = {}
        self.specifications: dict[int, str] = {}
        self.kernels: dict[int, str] = {}
        self.launch_arguments: dict[int, str] = {}
        self.counters: dict[int, tuple[int, dict[int, str]]] = {}  # descriptor -> device and counter names
        self.launches: dict[bytes, str] = {}  # launch arguments, as members of a JSON object
        self.stages: dict[
            tuple[int, ...], tuple[str, int, bool]
        ] = {}  # JSON shared by stages of one kind; see gpu_stages.py
        self.annotations = Annotations(log, of_torch=of_torch)
        self._log = log

    def add(self, data: Any) -> None:
        self.launches.clear()
        self.stages.clear()
        for kept, messages in (
            (self.names, data.event_names),
            (self.categories, data.event_categories),
            (self.specifications, data.gpu_specifications),
            (self.kernels, data.kernels),
            (self.launch_arguments, data.launch_arg_names),
        ):
            kept.update({each.iid: clean_text(each.name, self._log) for each in messages})
        for each in data.gpu_counter_descriptors:
            self.counters[each.iid] = (each.gpu_id, counter_names(each.descriptor, self._log))
        self.annotations.name({each.iid: clean_text(each.name, self._log) for each in data.annotation_names})
        self.annotations.value({each.iid: clean_text(each.name, self._log) for each in data.annotation_strings})


def counter_names(descriptor: Any, log: IssueLog) -> dict[int, str]:
    return {spec.counter_id: clean_text(spec.name, log) for spec in descriptor.specs}


class Annotations(dict[bytes, str]):
    """Maps undecoded annotations to members ``"name":value`` of a JSON object, or to "" if they are skipped."""

    def __init__(self, log: IssueLog, *, of_torch: bool) -> None:
        super().__init__()
        self._log = log
        self._of_torch = of_torch
        self._names: dict[int, str] = {}
        self._strings: dict[int, str] = {}
        self._quoted: dict[bytes, str] = {}

    def name(self, names: dict[int, str]) -> None:
        if names:
            self._names |= names
            self.clear()

    def value(self, strings: dict[int, str]) -> None:
        if strings:
            self._strings |= strings
            self.clear()

    def __missing__(self, raw: bytes) -> str:
        if self._of_torch:
            if raw.startswith(_NUMBERING):
                return ""
            if whole := self._small_integer(raw):
                return whole
        try:
            decoded = Annotation.FromString(raw)
        except DecodeError:
            self._log.add("unreadable_annotation", "note")
            return ""
        return remember(self, raw, f"{self._name_of(decoded)}:{self._value_of(decoded, 0)}")

    def _small_integer(self, raw: bytes) -> str:
        """Decodes a small integer without protobuf and cache, because such values differ per event; "" for others."""
        if len(raw) < 4 or raw[0] != _NAME_TAG or raw[1] > 127:
            return ""
        at = raw[1] + 2
        size = len(raw) - at - 1
        if not 0 < size < 4 or raw[at] != _INT_TAG or raw[-1] > 127:
            return ""
        value = raw[-1]
        for byte in raw[-2:at:-1]:
            if byte < 128:
                return ""
            value = value << 7 | byte & 127
        name = self._quoted.get(raw[2:at]) or remember(
            self._quoted, raw[2:at], text_json(clean_text(raw[2:at], self._log))
        )
        return f"{name}:{value}"

    def _name_of(self, decoded: Any) -> str:
        raw = decoded.name
        if not raw and decoded.name_iid:
            return text_json(self._names.get(decoded.name_iid, f"(name {decoded.name_iid})"))
        name = self._quoted.get(raw)
        if name is None:
            name = remember(self._quoted, raw, text_json(clean_text(raw, self._log)))
        return name

    def _value_of(self, decoded: Any, depth: int) -> str:
        has = decoded.HasField
        if has("int_value"):
            return str(decoded.int_value)
        if has("string_value"):
            text = clean_text(decoded.string_value, self._log)
            return "null" if self._of_torch and text == "null" else text_json(text)
        if depth >= MAX_DEPTH:
            return '"..."'
        if decoded.array_values:
            return f"[{','.join([self._value_of(each, depth + 1) for each in decoded.array_values])}]"
        if decoded.dict_entries:
            members = [f"{self._name_of(each)}:{self._value_of(each, depth + 1)}" for each in decoded.dict_entries]
            return f"{{{','.join(members)}}}"
        if has("double_value"):
            return float_json(decoded.double_value)
        if has("bool_value"):
            return "true" if decoded.bool_value else "false"
        for field in ("uint_value", "pointer_value"):
            if has(field):
                return str(getattr(decoded, field))
        if has("string_value_iid"):
            return text_json(self._strings.get(decoded.string_value_iid, f"(value {decoded.string_value_iid})"))
        if has("legacy_json_value"):
            return text_json(clean_text(decoded.legacy_json_value, self._log))
        if has("nested_value"):
            return self._nested(decoded.nested_value, depth)
        return "[]" if self._of_torch else "null"  # PyTorch writes empty lists, such as shapes, without a value

    def _nested(self, nested: Any, depth: int) -> str:
        """Returns a nested value in the format used before 2021."""
        if depth >= MAX_DEPTH:
            return '"..."'
        if nested.dict_keys:
            pairs = zip(nested.dict_keys, nested.dict_values, strict=False)
            members = [
                f"{text_json(clean_text(key, self._log))}:{self._nested(value, depth + 1)}" for key, value in pairs
            ]
            return f"{{{','.join(members)}}}"
        if nested.array_values:
            return f"[{','.join([self._nested(each, depth + 1) for each in nested.array_values])}]"
        if nested.HasField("int_value"):
            return str(nested.int_value)
        if nested.HasField("double_value"):
            return float_json(nested.double_value)
        if nested.HasField("bool_value"):
            return "true" if nested.bool_value else "false"
        return text_json(clean_text(nested.string_value, self._log))


def float_json(value: float) -> str:
    """Returns a float as JSON. NaN and infinity become texts, as in PyTorch."""
    return repr(value) if value - value == 0 else f'"{value}"'
