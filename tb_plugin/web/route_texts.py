"""Descriptions of the HTTP routes, for docs/reference/http.md."""

from __future__ import annotations

from typing import NamedTuple


class Route(NamedTuple):
    """A route below ``/data/plugin/torch_trace/``, described in Markdown."""

    path: str
    parameters: str
    answer: str


# docs/http.md explains P (a profile) and S (selected steps).
ROUTES = (
    Route(
        "runs",
        "",
        (
            "`Catalog`: all runs, workers, spans, their states, skipped files with reasons, and the "
            "address of the Perfetto UI. Clients may poll it: while nothing changes, the answer is 304"
        ),
    ),
    Route(
        "profile",
        "P, `start` (0/1, default 1), `retry` (0/1, default 0), `view`",
        (
            "`Profile`; starts loading unless `start=0`; `retry=1` retries after a failure. With "
            "`view=distributed`, a rank with an up-to-date [summary](../summaries.md) is `ready`, and its "
            "trace is not read. A rank without a trace in the log directory is always `ready`, but other "
            "views answer 404. Poll this route while you wait: after 15 s without a poll, the parse is "
            "cancelled. For progress see [HTTP interface](../http.md)"
        ),
    ),
    Route(
        "view/<id>",
        "P, S, `known` (0/1, default 0), and the parameters of the view",
        (
            "`View` with the first page of its tables. `known=1` applies to views of all workers of a run: "
            "the answer then uses only cached data. If nothing is cached or a file has changed, the answer "
            "is `202` with the state `found`"
        ),
    ),
    Route(
        "table/<view>/<table>",
        (
            "P, S, `sort`, `desc` (0/1, default 1), `search` (text, case-insensitive, or `/regex/`), `where` "
            "(repeatable, `column:value`, exact), `min_<column>`, `max_<column>` (integer columns, "
            "inclusive; rows without a value never match), `offset`, `limit` (1..1000, default 100), "
            "`format` (`json`, `csv`)"
        ),
        "`Table`; `csv` downloads all matching rows with units in the header",
    ),
    Route(
        "download/original",
        "P",
        (
            "the stored file, unchanged (`Content-Disposition: attachment`); for a folder, its main file. "
            "Until the profile is loaded, the answer is `202`, or the error of the failed load. 502 if the "
            "file has changed since"
        ),
    ),
    Route(
        "download/window",
        "P, S, `start_ns`, `end_ns`, `packed` (0/1, default 0)",
        (
            "the events that overlap the window (default: the whole trace) as Chrome JSON for Perfetto, "
            "with track names and launch arrows. `packed=1`: as a .gz file"
        ),
    ),
    Route(
        "download/stacks",
        (
            "P, S, `of` (`both`, `python`, `operators`), `weight` (`host`, `device`), `thread` (repeatable: "
            "key, id or name of a thread, or `all`; default: all threads that are not idle), `fold` (`none`, "
            "`framework`), `format` (`folded`, `speedscope`)"
        ),
        (
            "all [merged stacks](../concepts/attribution.md#stacks). `folded` is text with one line "
            "`outermost;...;innermost N` per stack. `speedscope` is JSON with one profile per thread. Both "
            "use nanoseconds. 404 if no stack has time of this `weight`"
        ),
    ),
    Route(
        "tiles",
        "P, `level`, `tiles` (`group.number`, at most 64, comma-separated)",
        "[tiles of the timeline](../http.md#tiles): an Arrow IPC stream",
    ),
    Route(
        "index.js, index.html, assets/*",
        "",
        "the page; files with a hash in their name never change",
    ),
)
