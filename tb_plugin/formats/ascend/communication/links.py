"""Links between ranks, with job ranks if known."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tb_plugin.formats.ascend.communication import schema
from tb_plugin.formats.ascend.communication.calls import KEYS, Entry, Key, split_name, stored_keys
from tb_plugin.formats.ascend.communication.groups import Group
from tb_plugin.formats.ascend.communication.units import scaled_integers, texts_of
from tb_plugin.formats.ascend.csv_table import CsvTable, floats_of
from tb_plugin.formats.issues import IssueLog
from tb_plugin.model.trace.job_tables import LINKS, job_table

_PAIR = re.compile(r"([0-9]{1,7})-([0-9]{1,7})\Z")
_TITLES = (schema.SIZE, schema.TRANSIT, schema.BANDWIDTH, schema.TRANSPORT, schema.EXAMPLE)


class Links(msgspec.Struct, frozen=True):
    """Links. Their ends are indices within a group, or ranks in a job analysis. Operations include the place."""

    keys: Sequence[Key]
    pairs: Sequence[tuple[int, int]]
    texts: Mapping[str, pa.Array]

    def own_places(self) -> dict[str, int]:
        """Returns the index of this rank in each group. Only this rank has a link to itself."""
        found: dict[str, set[int]] = defaultdict(set)
        for key, (source, destination) in zip(self.keys, self.pairs, strict=True):
            if key[4] is not None and source == destination:
                found[key[4]].add(source)
        return {group: next(iter(places)) for group, places in found.items() if len(places) == 1}


def links_in(entries: Iterable[Entry], log: IssueLog) -> Links:
    """Returns the links in entries, whose content maps pairs such as "0-1" to links."""
    rows = [(key, pair, link) for key, about in entries for pair, link in about.items()]
    values = {title: [link.get(title) if isinstance(link, dict) else None for _, _, link in rows] for title in _TITLES}
    return _links([key for key, _, _ in rows], [pair for _, pair, _ in rows], values, log)


def links_stored(table: CsvTable, rank: int | None, log: IssueLog) -> Links:
    """Returns the links in a database."""
    pairs = pc.binary_join_element_wise(table.texts(schema.SOURCE), table.texts(schema.DESTINATION), "-").to_pylist()
    values = {title: table.texts(title).to_pylist() for title in _TITLES}
    return _links(stored_keys(table, rank), [pair or "" for pair in pairs], values, log)


def link_table(links: Links, groups: Mapping[str, Group] | None, log: IssueLog) -> pa.Table:
    """Returns the table of links, with job ranks if they are known. ``groups`` is None for a job analysis."""
    ends, inside = list(links.pairs), [False] * len(links.keys)
    if groups is not None:
        for place, (key, pair) in enumerate(zip(links.keys, links.pairs, strict=True)):
            group = groups.get(key[4] or "")
            ranks = [group.rank_at(index, key[0]) if group else None for index in pair]
            if ranks[0] is None or ranks[1] is None:
                inside[place] = True
            else:
                ends[place] = ranks[0], ranks[1]
    if any(inside):
        text = "links show an index within the group instead of a rank, because the ranks of the group are unknown"
        log.add("links_in_group", "note", count=sum(inside), text=text)
    split = [split_name(key[3]) for key in links.keys]
    rate = floats_of(links.texts[schema.BANDWIDTH], log)
    columns: dict[str, Any] = {name: [key[place] for key in links.keys] for place, name in enumerate(KEYS)}
    columns |= {
        "operation": [operation for operation, _ in split],
        "place": [place for _, place in split],
        "source": [source for source, _ in ends],
        "destination": [destination for _, destination in ends],
        "in_group": inside,
        "transport": links.texts[schema.TRANSPORT],
        "bytes": scaled_integers(links.texts[schema.SIZE], schema.MB, log),
        "transit_ns": scaled_integers(links.texts[schema.TRANSIT], schema.MS, log),
        "bytes_per_second": pa.array([None if one is None else one * 10.0**schema.GB for one in rate.to_pylist()]),
        "example": links.texts[schema.EXAMPLE],
    }
    return job_table(LINKS, columns)


def _links(keys: Sequence[Key], pairs: Sequence[str], values: Mapping[str, Sequence[Any]], log: IssueLog) -> Links:
    """Returns the links of rows. Invalid pairs are logged."""
    matches = [_PAIR.match(pair) for pair in pairs]
    good = [place for place, match in enumerate(matches) if match]
    if len(good) < len(pairs):
        log.add("bad_link", "note", count=len(pairs) - len(good), text="links without two valid ranks were skipped")
    return Links(
        [keys[place] for place in good],
        [(int(match[1]), int(match[2])) for match in matches if match],
        {title: texts_of([column[place] for place in good], log) for title, column in values.items()},
    )
