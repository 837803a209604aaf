"""Routes: their parameters and answers, as docs/reference/http.md lists them."""

from __future__ import annotations

from typing import NamedTuple


class Route(NamedTuple):
    """A route below ``/data/plugin/torch_trace/``. Its texts are Markdown."""

    path: str
    parameters: str
    answer: str


ROUTES = (
    Route(
        "runs",
        "",
        (
            "`Catalog`: all runs, workers, spans, their states, what was skipped and why, and the address of the "
            "Perfetto UI to open. Made to be polled: while files and states stay as they are, the answer does too "
            "(304)"
        ),
    ),
    Route(
        "profile",
        "P, `start` (0/1, default 1), `retry` (0/1, default 0), `view`",
        (
            "`Profile`; starts loading it unless `start=0`; `retry=1` also after a failure. With "
            "`view=distributed` a rank that has a current [summary](../summaries.md) is `ready` by it, and its "
            "trace is not read; so is, with any view, one whose trace is not in the log directory (other views: "
            "404). Polling this route is a lease: 15 s without a poller cancels the parse. How far it is: see "
            "below"
        ),
    ),
    Route(
        "view/<id>",
        "P, S, `known` (0/1, default 0), and the view's own",
        (
            "`View` with the first page of its tables. `known=1` of a view about all workers of a run (of others "
            "it means nothing): nothing is read for it; it is answered from what this service last read for such "
            "an answer, and is `202` with the state `found` where that is not there or of other files"
        ),
    ),
    Route(
        "table/<view>/<table>",
        (
            "P, S, `sort`, `desc` (0/1, default 1), `search` (text, case-insensitive, or `/regex/`), `where` "
            "(repeatable, `column:value`, exact), `min_<column>`, `max_<column>` (columns of whole numbers: both "
            "ends belong to the range; a row without a value does not), `offset`, `limit` (1..1000, default 100), "
            "`format` (`json`, `csv`)"
        ),
        "`Table`; `csv` downloads all matching rows with units in the header",
    ),
    Route(
        "download/original",
        "P",
        (
            "the stored file, unchanged (`Content-Disposition: attachment`), once it was read as a profile (of a "
            "folder the main file): `202` before, the error of a profile that failed. 502 when it is another file "
            "by now"
        ),
    ),
    Route(
        "download/window",
        "P, S, `start_ns`, `end_ns`, `packed` (0/1, default 0)",
        (
            "the events that touch the window (of the whole trace when none is given) as Chrome JSON for "
            "Perfetto, with track names and launch arrows; `packed=1`: as a .gz file"
        ),
    ),
    Route(
        "download/stacks",
        (
            "P, S, `of` (`both`, `python`, `operators`), `weight` (`host`, `device`), `thread` (repeatable: its "
            "key, id or name; `all`; default: those that are not idle), `fold` (`none`, `framework`), `format` "
            "(`folded`, `speedscope`)"
        ),
        (
            "all [merged stacks](../concepts/attribution.md#stacks), cut nowhere: `folded`, text with a line "
            "`outermost;...;innermost N` each, or JSON for speedscope with a profile a thread. Both in "
            "nanoseconds. 404 where no stack has any of that time"
        ),
    ),
    Route(
        "tiles",
        "P, `level`, `tiles` (`group.number`, at most 64, with commas between)",
        "[tiles of the timeline](../http.md#tiles): an Arrow IPC stream",
    ),
    Route(
        "index.js, index.html, assets/*",
        "",
        "the bundle; hashed assets are immutable",
    ),
)
"""``P`` and ``S`` are the parameters that docs/http.md explains: a profile, and selected steps."""
