"""Links between ranks, with job ranks if known."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from tb_plugin.formats.ascend.communication.calls import call_entries, operation_and_group
from tb_plugin.formats.ascend.communication.groups import Group
from tb_plugin.formats.ascend.communication.units import floats_of, scaled_integers, texts_of
from tb_plugin.formats.ascend.communication_titles import BANDWIDTH, EXAMPLE, GB, MB, MS, SIZE, TRANSIT, TRANSPORT
from tb_plugin.formats.issues import IssueLog
from tb_plugin.model.trace.job_tables import LINKS, job_table

_PLACE = re.compile(r"(?P<operation>.+)-(?P<place>top[0-9]*|middle|bottom[0-9]*|total)\Z")
_PAIR = re.compile(r"([0-9]{1,7})-([0-9]{1,7})\Z")

Key = tuple[str | None, str, str, str | None]  # step, class, operation with its place, group


class Links:
    """Links as reported in a profile. The two ends of a link are indices within a group."""

    def __init__(
        self,
        keys: Sequence[Key],
        pairs: Sequence[tuple[int, int]],
        texts: Mapping[str, pa.Array],
    ) -> None:
        self.keys = keys
        self.pairs = pairs
        self.texts = texts

    def own_places(self) -> dict[str, int]:
        """Returns the index of this rank in each group. Only this rank has a link to itself."""
        found: dict[str, set[int]] = defaultdict(set)
        for (_, _, _, group), (source, destination) in zip(self.keys, self.pairs, strict=True):
            if group is not None and source == destination:
                found[group].add(source)
        return {group: next(iter(places)) for group, places in found.items() if len(places) == 1}

    def table(self, groups: Mapping[str, Group], rank: int | None, log: IssueLog) -> pa.Table:
        """Returns the table of links. The ends of a link are job ranks if the ranks of its group are known."""
        count, unknown = len(self.keys), 0
        sources: list[int] = []
        destinations: list[int] = []
        inside: list[bool] = []
        for (_, _, _, number), pair in zip(self.keys, self.pairs, strict=True):
            group = groups.get(number or "")
            ends = [group.rank_at(place, rank) if group else None for place in pair]
            is_unknown = None in ends
            source, destination = pair if is_unknown else ends
            sources.append(source if source is not None else pair[0])
            destinations.append(destination if destination is not None else pair[1])
            inside.append(is_unknown)
            unknown += is_unknown
        if unknown:
            text = "links show an index within the group instead of a rank, because the ranks of the group are unknown"
            log.add("links_in_group", "note", count=unknown, text=text)
        split = [_PLACE.match(key[2]) for key in self.keys]
        rate = floats_of(self.texts[BANDWIDTH], log)
        return job_table(
            LINKS,
            {
                "rank": pa.array([rank] * count, pa.int64()),
                "step": [key[0] for key in self.keys],
                "kind": [key[1] for key in self.keys],
                "operation": [
                    match["operation"] if match else key[2] for key, match in zip(self.keys, split, strict=True)
                ],
                "group": [key[3] for key in self.keys],
                "place": [match["place"] if match else None for match in split],
                "source": sources,
                "destination": destinations,
                "in_group": inside,
                "transport": self.texts[TRANSPORT],
                "bytes": scaled_integers(self.texts[SIZE], MB, log),
                "transit_ns": scaled_integers(self.texts[TRANSIT], MS, log),
                "bytes_per_second": pa.array([None if one is None else one * 10.0**GB for one in rate.to_pylist()]),
                "example": self.texts[EXAMPLE],
            },
        )


def links_in(document: Mapping[str, Any], log: IssueLog) -> Links:
    """Returns the links in ``communication_matrix.json``."""
    rows = []
    for step, kind, name, about in call_entries(document, log):
        operation, group = operation_and_group(name)
        for pair, link in about.items():
            rows.append(((step, kind, operation, group), pair, link))
    return links_of(
        [key for key, _, _ in rows],
        [pair for _, pair, _ in rows],
        {
            title: [link.get(title) if isinstance(link, dict) else None for _, _, link in rows]
            for title in (SIZE, TRANSIT, BANDWIDTH, TRANSPORT, EXAMPLE)
        },
        log,
    )


def links_of(keys: Sequence[Key], pairs: Sequence[str], values: Mapping[str, Sequence[Any]], log: IssueLog) -> Links:
    """Returns links from columns. ``pairs`` are texts such as "0-1". Invalid pairs are logged."""
    matches = [_PAIR.match(pair) for pair in pairs]
    good = [place for place, match in enumerate(matches) if match]
    if len(good) < len(pairs):
        log.add("bad_link", "note", count=len(pairs) - len(good), text="links without two valid ranks were skipped")
    return Links(
        [keys[place] for place in good],
        [(int(match[1]), int(match[2])) for match in matches if match],
        {title: texts_of([column[place] for place in good], log) for title, column in values.items()},
    )
