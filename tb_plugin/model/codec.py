"""Storage of frozen Structs of arrays in one Arrow file.

Columns differ in length. The file therefore contains a single record, in which each column is one list. ``read``
maps the file into memory and copies only boolean columns. A column is named after the path of its field
(``operators.row``). Values that are not arrays are in the header, as JSON.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TypeGuard, TypeVar, get_args, get_origin

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec.structs import FieldInfo, fields, replace

from tb_plugin.errors import CacheFileLost
from tb_plugin.model.column_file import cache_file_errors, one_list, read_columns, write_columns
from tb_plugin.model.trace.graph_capture import Captured
from tb_plugin.model.trace.recorder import UNKNOWN_RECORDER, Recorder
from tb_plugin.model.trace.strings import StringTable

Made = TypeVar("Made")
Lookup = Callable[[str], Recorder | None]
_AGAIN = "It will be created again from its source: repeat the request."
_POSITION = re.compile(r"\.\d+")


def write(model: Any, path: str, version: int, profiler: Lookup) -> None:
    """Writes a model. Callers rename a temporary file, because the write is not atomic. Raises OSError."""
    split = _Split(profiler)
    header = split.value(type(model), model, "")
    split.columns |= {name: pa.array(np.concatenate(parts)) for name, parts in split.parts.items()}
    columns = {name: one_list(values) for name, values in split.columns.items()}
    write_columns(columns, {"model": type(model).__name__, "version": version, "fields": header}, path)


def read(kind: type[Made], path: str, version: int, profiler: Lookup) -> Made:
    """Maps a file into memory, without a checksum test. Raises CacheFileLost: missing, damaged, or of another version."""
    with cache_file_errors("The column file is", path, _AGAIN), _as_value_error():
        table, header = read_columns(path)
        if (header["model"], header["version"]) != (kind.__name__, version):
            raise CacheFileLost("The column file has another version.", path, _AGAIN)
        model: Made = _Join(table, profiler).value(kind, header["fields"], "")
        return model


@contextmanager
def _as_value_error() -> Iterator[None]:
    try:
        yield
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error


class _Split(msgspec.Struct):
    profiler: Lookup
    columns: dict[str, pa.Array] = msgspec.field(default_factory=dict)
    parts: dict[str, list[Any]] = msgspec.field(default_factory=dict)
    """Arrays of tuples, by column; one column per array would need more space than the values."""

    def value(self, hint: Any, value: Any, path: str) -> Any:
        if hint is Recorder:
            return self._profiler(value)
        if not _has_columns(hint):
            return msgspec.to_builtins(value, enc_hook=_plain)
        if _is_struct(hint):
            present = [f for f in _fields(hint) if not _is_default(f, getattr(value, f.name))]
            split = {f.name: self.value(f.type, getattr(value, f.name), _below(path, f.name)) for f in present}
            return {name: header for name, header in split.items() if header is not None}
        kind, inner = get_origin(hint), get_args(hint)
        if kind is tuple:
            return [self.value(inner[0], each, f"{path}.{n}") for n, each in enumerate(value)]
        if kind is Mapping:
            return {key: self.value(inner[1], each, _below(path, key)) for key, each in value.items()}
        return self._column(value, path)

    def _column(self, value: Any, path: str) -> Any:
        if isinstance(value, pa.Table):
            self.columns |= {_below(path, key): value[key].combine_chunks() for key in value.column_names}
            return value.column_names
        if isinstance(value, np.ndarray) and _POSITION.search(path):
            self.parts.setdefault(f"{_POSITION.sub('', path)}.{value.dtype}", []).append(value)
            return [str(value.dtype), len(value)]
        self.columns[path] = value.array if isinstance(value, StringTable) else pa.array(value)
        return None

    def _profiler(self, value: Recorder) -> Any:
        base = self.profiler(value.id)
        named = "" if base is None else value.id
        differing = {
            f: msgspec.to_builtins(getattr(value, f), enc_hook=_plain)
            for f in Recorder.__struct_fields__
            if getattr(value, f) != getattr(base or UNKNOWN_RECORDER, f)
        }
        return {"of": named, **differing}


class _Join(msgspec.Struct):
    table: pa.Table
    profiler: Lookup
    names: frozenset[str] = frozenset()
    parts: dict[str, tuple[Any, int]] = msgspec.field(default_factory=dict)
    """Concatenated arrays. Each is stored together with the position of the next value to read."""

    def __post_init__(self) -> None:
        self.names = frozenset(self.table.column_names)

    def value(self, hint: Any, header: Any, path: str) -> Any:
        if hint is Recorder:
            return self._profiler(**header)
        if not _has_columns(hint):
            return msgspec.convert(header, hint)
        if _is_struct(hint):
            given = {}
            for f in _fields(hint):
                below = _below(path, f.name)
                if f.name in header or below in self.names or f.required:
                    given[f.name] = self.value(f.type, header.get(f.name), below)
            return hint(**given)
        kind, inner = get_origin(hint), get_args(hint)
        if kind is tuple:
            return tuple(self.value(inner[0], each, f"{path}.{n}") for n, each in enumerate(header))
        if kind is Mapping:
            return {key: self.value(inner[1], each, _below(path, key)) for key, each in header.items()}
        return self._column(hint, header, path)

    def _column(self, hint: Any, header: Any, path: str) -> Any:
        if hint is pa.Table:
            return pa.table({key: self._values(_below(path, key)) for key in header})
        if hint is StringTable:
            return StringTable(self._values(path))
        if hint is pa.Array:
            return self._values(path)
        if header is None:
            return _numbers(self._values(path))
        dtype, length = header
        name = f"{_POSITION.sub('', path)}.{dtype}"
        values, start = self.parts.get(name) or (_numbers(self._values(name)), 0)
        self.parts[name] = values, start + length
        return values[start : start + length]

    def _values(self, name: str) -> pa.Array:
        return self.table[name].chunk(0).values

    def _profiler(self, of: str, **differing: Any) -> Recorder:
        base = self.profiler(of) if of else UNKNOWN_RECORDER
        if base is None:
            raise LookupError(of)
        if not differing:
            return base
        hints = {f.name: f.type for f in _fields(Recorder)}
        return replace(base, **{name: msgspec.convert(value, hints[name]) for name, value in differing.items()})


def _numbers(values: pa.Array) -> Any:
    if pa.types.is_boolean(values.type):  # Arrow packs them into bits
        return np.asarray(values.to_numpy(zero_copy_only=False), dtype=np.bool_)
    return values.to_numpy(zero_copy_only=True)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else dict(value)


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _is_default(f: FieldInfo, value: Any) -> bool:
    if f.default_factory is msgspec.NODEFAULT or not isinstance(value, np.ndarray) or len(value):
        return False
    default = f.default_factory()
    return len(default) == 0 and default.dtype == value.dtype


def _is_struct(hint: Any) -> TypeGuard[type[msgspec.Struct]]:
    return isinstance(hint, type) and issubclass(hint, msgspec.Struct)


@lru_cache(maxsize=64)
def _fields(kind: type[msgspec.Struct]) -> tuple[FieldInfo, ...]:
    # What other recordings say is never stored with a trace.
    return tuple(f for f in fields(kind) if f.type is not Captured)


# From numpy 2.5 on, the name of the type stays in annotations on Python 3.12 and newer.
_ARRAYS = (np.ndarray, npt.NDArray)


@lru_cache(maxsize=256)
def _has_columns(hint: Any) -> bool:
    if hint in (pa.Array, pa.Table, StringTable, Recorder) or get_origin(hint) in _ARRAYS:
        return True
    if _is_struct(hint):
        return any(_has_columns(f.type) for f in _fields(hint))
    return get_origin(hint) in (tuple, Mapping) and any(_has_columns(each) for each in get_args(hint))
