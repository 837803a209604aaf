"""Columns from the nodes of an execution trace."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from tb_plugin.formats.issues import IssueLog
from tb_plugin.model.execution_trace import NODES, TENSORS, TEXT

MAX_TEXT = 4096
_MAX_NUMBER = 2**62
_TENSOR_FIELDS = 6  # tensor, storage, offset, elements, bytes per element, device
_SIDES = (("inputs", False), ("outputs", True))


class Nodes:
    def __init__(self, log: IssueLog) -> None:
        self.loaded = 0
        self.dropped = 0
        self._log = log
        self._nodes = _Columns(NODES)
        self._tensors = _Columns(TENSORS)

    def take(self, node: Any) -> None:
        values = node if isinstance(node, dict) else {}
        number, name = _integer(values.get("id")), values.get("name")
        if number is None or not isinstance(name, str):
            self.dropped += 1
            self._log.add("bad_node", "dropped", text="nodes without an id or a name were skipped")
            return
        attributes = {
            each["name"]: each.get("value")
            for each in _items(values.get("attrs"))
            if isinstance(each, dict) and isinstance(each.get("name"), str)
        }
        parent = _integer(values.get("ctrl_deps", values.get("parent")))
        self._nodes.add(
            (
                number,
                -1 if parent is None or parent == number else parent,
                name,
                _integer(attributes.get("rf_id", values.get("rf_id"))) or 0,
                _integer(attributes.get("tid", values.get("tid"))) or 0,
                attributes.get("op_schema", values.get("op_schema")),
            )
        )
        for side, is_output in _SIDES:
            found = values.get(side)
            # Old files store values, shapes and types in separate lists.
            lists = found if isinstance(found, dict) else {
                "values": found, "shapes": values.get(f"{side[:-1]}_shapes"), "types": values.get(f"{side[:-1]}_types"),
            }  # fmt: skip
            columns = [_items(lists.get(key)) for key in ("values", "shapes", "types", "strides")]
            for position, value in enumerate(columns[0]):
                shape, kind, strides = (column[position] if position < len(column) else None for column in columns[1:])
                self._value(is_output, position, value, shape, kind, strides)
        self.loaded += 1

    def _value(self, is_output: bool, position: int, value: Any, shape: Any, kind: Any, strides: Any) -> None:
        kinds = kind if isinstance(kind, str) else ""
        if "Tensor" not in kinds or not isinstance(value, list):
            return
        if kinds.startswith("GenericList"):
            inner = kinds.removeprefix("GenericList[").removesuffix("]").split(",")
            for number, each in enumerate(value):
                self._tensor(
                    is_output,
                    position,
                    each,
                    _item_at(shape, number),
                    _item_at(inner, number),
                    _item_at(strides, number),
                )
        else:
            self._tensor(is_output, position, value, shape, kinds, strides)

    def _tensor(self, is_output: bool, position: int, value: Any, shape: Any, kind: Any, strides: Any) -> None:
        numbers = [_integer(each) for each in value[: _TENSOR_FIELDS - 1]] if isinstance(value, list) else []
        if len(numbers) < _TENSOR_FIELDS - 1 or numbers[0] is None:
            return
        elements, item_bytes = numbers[3] or 0, numbers[4] or 0
        if elements * item_bytes >= _MAX_NUMBER:
            numbers[3] = None
        device = value[_TENSOR_FIELDS - 1] if len(value) >= _TENSOR_FIELDS else None
        self._tensors.add((self.loaded, is_output, position, *numbers, device, _sizes(shape), _sizes(strides), kind))

    def tables(self) -> tuple[pa.Table, pa.Table]:
        """Returns nodes and their tensors. Nodes are sorted by id, the order of their starts."""
        nodes, tensors = self._nodes.table(), self._tensors.table()
        order = np.argsort(nodes["node"].to_numpy(), kind="stable")
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        row = place[tensors["row"].to_numpy()]
        tensors = tensors.set_column(0, "row", pa.array(row))
        by_row = pa.array(np.argsort(row, kind="stable"))
        return nodes.take(pa.array(order)).combine_chunks(), tensors.take(by_row).combine_chunks()


class _Columns:
    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._rows: list[tuple[Any, ...]] = []
        self._texts: list[dict[str, int] | None] = [{} if field.type == TEXT else None for field in schema]

    def add(self, row: tuple[Any, ...]) -> None:
        """Adds a row with one value per column. In text columns, values that are not texts become null."""
        row_values = []
        for value, texts in zip(row, self._texts, strict=True):
            if texts is not None:
                value = _text(value)
                value = None if value is None else texts.setdefault(value, len(texts))
            row_values.append(value)
        self._rows.append(tuple(row_values))

    def table(self) -> pa.Table:
        columns = list(zip(*self._rows, strict=True)) or [()] * len(self._schema)
        arrays = []
        for values, field, texts in zip(columns, self._schema, self._texts, strict=True):
            if texts is None:
                arrays.append(pa.array(values, field.type))
            else:
                names = pa.array(list(texts), pa.large_string())
                arrays.append(pa.DictionaryArray.from_arrays(pa.array(values, pa.int32()), names))
        return pa.table(arrays, schema=self._schema)


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _item_at(values: Any, number: int) -> Any:
    return values[number] if isinstance(values, list) and number < len(values) else None


def _integer(value: Any) -> int | None:
    return value if type(value) is int and abs(value) < _MAX_NUMBER else None


def _sizes(value: Any) -> str | None:
    if not isinstance(value, list) or not all(type(each) is int for each in value[:64]):
        return None
    return f"[{', '.join(str(each) for each in value[:64])}]"


def _text(value: Any) -> str | None:
    if not isinstance(value, str):
        return None
    return value[:MAX_TEXT] if value.isascii() else value[:MAX_TEXT].encode("utf-8", "replace").decode()
