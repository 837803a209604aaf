"""Metadata of collectives, recorded or from host calls."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tb_plugin.analysis.collective_names import collective_name
from tb_plugin.analysis.communication import BACKEND
from tb_plugin.analysis.reported_collectives import json_list, main_input
from tb_plugin.lib.arrays import Bool, Int64
from tb_plugin.lib.groupby import group
from tb_plugin.model.trace.schema import MISSING
from tb_plugin.model.trace.table import TraceTable

# larger numbers of elements are invalid: their bytes exceed 64 bits
MOST_ELEMENTS = 1 << 48
# larger numbers are not ranks
MOST_RANKS = 1 << 24
_LARGEST = np.iinfo(np.int64).max


class Words:
    """Assigns indices to texts in order of first use. The empty text has index -1."""

    def __init__(self) -> None:
        self._numbers = {"": MISSING}

    def number(self, text: str) -> int:
        """Returns the index of a text, and adds a new text."""
        return self._numbers.setdefault(text, len(self._numbers) - 1)

    def numbers(self, texts: Sequence[str]) -> Int64:
        """Returns the indices of several texts, and adds new texts."""
        return np.array([self.number(text) for text in texts], np.int64)

    def __iter__(self) -> Iterator[str]:
        return iter([text for text in self._numbers if text])

    def take(self, numbers: Int64) -> pa.Array:
        """Returns the texts at these indices; -1 becomes ""."""
        return pa.array([*self, ""], pa.string()).take(
            pa.array(np.where(numbers == MISSING, len(self._numbers) - 1, numbers))
        )


class CollectiveMetadata(msgspec.Struct, frozen=True, eq=False):
    """Metadata of collectives: one row per collective (-1 = unknown).

    Texts are indices into Words. ``sent`` and ``received`` are string ids of the trace.
    """

    collective: Int64
    dtype: Int64
    inside: Int64
    outside: Int64
    group: Int64
    ranks: Int64
    group_size: Int64
    sequence: Int64
    source: Int64
    destination: Int64
    sent: Int64
    received: Int64

    @property
    def columns(self) -> dict[str, Int64]:
        return {field: getattr(self, field) for field in self.__struct_fields__}

    def take(self, places: Int64) -> CollectiveMetadata:
        """Returns the rows at the indices ``places``. For index -1, all values of the row are unknown."""
        return CollectiveMetadata(**{key: np.append(column, MISSING)[places] for key, column in self.columns.items()})

    def where(self, mine: Bool, other: CollectiveMetadata) -> CollectiveMetadata:
        """Returns rows of ``self`` where ``mine`` is true, and rows of ``other`` elsewhere."""
        theirs = other.columns
        return CollectiveMetadata(**{key: np.where(mine, column, theirs[key]) for key, column in self.columns.items()})

    def concatenate(self, other: CollectiveMetadata) -> CollectiveMetadata:
        theirs = other.columns
        return CollectiveMetadata(**{key: np.append(column, theirs[key]) for key, column in self.columns.items()})

    def filled(self, other: CollectiveMetadata) -> CollectiveMetadata:
        """Replaces unknown values by values of ``other``, in rows with the same collective in both."""
        same, theirs = self.collective == other.collective, other.columns
        return CollectiveMetadata(
            **{key: np.where(same & (column == MISSING), theirs[key], column) for key, column in self.columns.items()}
        )


def metadata_from_columns(count: int, **known: Int64) -> CollectiveMetadata:
    """Creates metadata from the columns in ``known``. The values of all other columns are unknown."""
    nothing = np.full(count, MISSING, np.int64)
    return CollectiveMetadata(**{field: known.get(field, nothing) for field in CollectiveMetadata.__struct_fields__})


class Facts:
    """Reader of the metadata in trace rows. Each distinct text is parsed only once."""

    def __init__(self, trace: TraceTable, words: Words) -> None:
        self._trace, self._words = trace, words
        self._default_size = _only_group_size(trace.metadata)
        rank = rank_of(trace.metadata)
        self._rank = MISSING if rank is None else rank
        self._other = _only_other_rank(trace.metadata, self._rank)
        self._section = self._read()

    def from_arguments(self, rows: Int64) -> tuple[CollectiveMetadata, Bool]:
        """Returns the metadata recorded in ``rows``, and a mask of the rows with recorded metadata."""
        place = _places(self._trace.collectives.row, rows)
        return self._section.take(place), place != MISSING

    def from_names(self, rows: Int64) -> CollectiveMetadata:
        """Returns the metadata that the names of ``rows`` contain."""
        return metadata_from_columns(len(rows), collective=self._collectives(self._trace.name[rows]))

    def of_chains(self, host: Int64, chain: Int64, count: int) -> tuple[CollectiveMetadata, Bool]:
        """Returns the metadata of each chain of host calls, and whether the metadata is recorded.

        Metadata that is not recorded comes from names and input shapes. ``chain`` is the chain of each row in
        ``host``. Within a chain, rows are sorted from the top-level call to the innermost call.
        """
        of_rows, has = self.from_arguments(host)
        first = np.full(count, MISSING, np.int64)
        first[chain[has][::-1]] = np.flatnonzero(has)[::-1]
        stated = of_rows.take(first)
        return stated.where(first != MISSING, self._unstated(host, chain, count)), first != MISSING

    def _unstated(self, host: Int64, chain: Int64, count: int) -> CollectiveMetadata:
        names = self._trace.name[host]
        named = np.full(count, MISSING, np.int64)
        named[chain[::-1]] = names[::-1]
        backend = self._is_backend(names)
        named[chain[backend][::-1]] = names[backend][::-1]
        collective = self._collectives(named)
        row_dtype, row_elements, row_largest = self._inputs(host)
        known = row_elements >= 0
        dtype, elements = np.full(count, MISSING, np.int64), np.full(count, MISSING, np.int64)
        dtype[chain[known]], elements[chain[known]] = (row_dtype[known], row_elements[known])  # innermost last
        size = self._default_size
        outside, largest = np.full(count, MISSING, np.int64), np.full(count, MISSING, np.int64)
        gathers = np.isin(collective, self._words.numbers(("all_gather", "gather"))) & (elements >= 0)
        # The output tensor may be among the inputs: it has the size of all ranks' inputs together.
        same = known & (row_dtype == dtype[chain])
        np.maximum.at(largest, chain[same], row_largest[same])
        filled = gathers & (elements > 0) & (largest > elements) & (largest % np.maximum(elements, 1) == 0)
        outside[filled] = largest[filled]
        if size > 0:
            # Only inputs are recorded, but the size of a gather (nccl-tests) is that of its output.
            gathers &= ~filled
            too_many = elements > MOST_ELEMENTS // size
            outside[gathers] = np.where(too_many, MOST_ELEMENTS + 1, elements * min(size, MOST_ELEMENTS + 1))[gathers]
        sizes = np.full(count, size, np.int64)
        # In a group of two the peer is the other rank.
        send, receive = (collective == self._words.number(name) for name in ("send", "recv"))
        mine, other = (self._rank, self._other) if self._other != MISSING else (MISSING, MISSING)
        return metadata_from_columns(
            count,
            collective=collective,
            dtype=dtype,
            inside=elements,
            outside=outside,
            group_size=sizes,
            source=np.select([send, receive], [mine, other], MISSING),
            destination=np.select([send, receive], [other, mine], MISSING),
        )

    def _is_backend(self, names: npt.NDArray[np.integer]) -> Bool:
        unique, of = np.unique(names, return_inverse=True)
        hits = [BACKEND.match(self._trace.strings[name]) is not None for name in unique.tolist()]
        found: Bool = np.array(hits, np.bool_)[of.ravel()]
        return found

    def _inputs(self, rows: Int64) -> tuple[Int64, Int64, Int64]:
        """Returns the main dtype of the inputs, its number of elements, and the size of its largest tensor."""
        args = self._trace.operators
        place = _places(args.row, rows)
        shapes, types = (np.append(column, MISSING)[place] for column in (args.shapes, args.types))
        kinds = group(shapes, types)
        strings, words = self._trace.strings, self._words
        pairs = zip(shapes[kinds.first].tolist(), types[kinds.first].tolist(), strict=True)
        read = [main_input(strings[shape], strings[kind]) for shape, kind in pairs]
        dtype = words.numbers([kind for kind, *_ in read])
        counts = [[min(max(count, MISSING), MOST_ELEMENTS + 1) for count in both] for _, *both in read]
        elements, largest = np.array(counts, np.int64).reshape(-1, 2).T
        return dtype[kinds.of], elements[kinds.of], largest[kinds.of]

    def _read(self) -> CollectiveMetadata:
        args, words = self._trace.collectives, self._words
        collective, ranks = self._collectives(args.name), self._numbers(args.group_ranks)
        send, receive = (collective == words.number(name) for name in ("send", "recv"))
        other_of_two = np.array([_other_of_two(text, self._rank) for text in words] or [MISSING], np.int64)
        other = np.where(ranks == MISSING, MISSING, other_of_two[ranks])
        to_rank, from_rank = (
            np.where((stated < 0) & (other != MISSING), other, stated)
            for stated in (args.destination_rank, args.source_rank)
        )
        own = np.full(len(ranks), self._rank, np.int64)
        sent, received = (self._split(key) for key in self._trace.recorder.parallel.split_sizes)
        return CollectiveMetadata(
            collective=collective,
            dtype=self._numbers(args.dtype),
            inside=args.in_elements,
            outside=args.out_elements,
            group=self._numbers(args.group_name),
            ranks=ranks,
            group_size=args.group_size,
            sequence=args.sequence,
            source=np.select([send, receive], [own, from_rank], MISSING),
            destination=np.select([send, receive], [to_rank, own], MISSING),
            sent=sent,
            received=received,
        )

    def _split(self, key: str) -> Int64:
        rows = self._trace.collectives.row
        column = next((each for each in self._trace.others if key and each.key == key and each.is_text), None)
        if column is None:
            return np.full(len(rows), MISSING, np.int64)
        value, has = column.at(rows)
        return np.where(has, value.astype(np.int64), MISSING)

    def _collectives(self, names: npt.NDArray[np.integer]) -> Int64:
        return self._numbers(names, spelled=True)

    def _numbers(self, ids: npt.NDArray[np.integer], spelled: bool = False) -> Int64:
        unique, of = np.unique(ids, return_inverse=True)
        texts = [self._trace.strings[each] for each in unique.tolist()]
        found: Int64 = self._words.numbers([collective_name(text) for text in texts] if spelled else texts)[of.ravel()]
        return found


def _places(rows: npt.NDArray[np.integer], wanted: Int64) -> Int64:
    """Returns the index of each wanted row in the sorted array ``rows`` (-1 = missing)."""
    if not len(rows):
        return np.full(len(wanted), MISSING, np.int64)
    place = np.minimum(np.searchsorted(rows, wanted), len(rows) - 1)
    return np.where(rows[place] == wanted, place, MISSING)


def _other_of_two(ranks: str, rank: int) -> int:
    """Returns the other rank in a group of two ranks, or -1 for larger or unknown groups."""
    listed = json_list(ranks)
    if len(listed) != 2 or rank not in listed:
        return MISSING
    other = listed[1 - listed.index(rank)]
    return other if isinstance(other, int) and abs(other) < _LARGEST else MISSING


def rank_of(metadata: Mapping[str, Any]) -> int | None:
    return _whole_number(metadata, "rank")


def world_size_of(metadata: Mapping[str, Any]) -> int | None:
    return _whole_number(metadata, "world_size")


def _whole_number(metadata: Mapping[str, Any], key: str) -> int | None:
    value = _info(metadata).get(key)
    return value if type(value) is int and 0 <= value < MOST_RANKS else None


def _info(metadata: Mapping[str, Any]) -> dict[str, Any]:
    info = metadata.get("distributedInfo")
    return info if isinstance(info, dict) else {}


def groups_of(metadata: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the process groups that the field ``distributedInfo`` of a trace contains."""
    groups = _info(metadata).get("pg_config")
    return [group for group in groups if isinstance(group, dict)] if isinstance(groups, list) else []


def _only_group_size(metadata: Mapping[str, Any]) -> int:
    """Returns the size of all groups for calls without metadata, or -1 if sizes differ."""
    every = [group.get("pg_size") for group in groups_of(metadata)]
    sizes = {size if isinstance(size, int) and abs(size) < _LARGEST else MISSING for size in every}
    return sizes.pop() if len(sizes) == 1 else MISSING


def _only_other_rank(metadata: Mapping[str, Any], rank: int) -> int:
    """Returns the other rank if all groups consist of the same two ranks, otherwise -1."""
    others = {_other_of_two(json.dumps(group.get("ranks")), rank) for group in groups_of(metadata)}
    return others.pop() if len(others) == 1 else MISSING
