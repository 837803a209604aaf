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
            "`Catalog`: all runs, workers and spans and their states, skipped files with reasons, and the "
            "address of the Perfetto UI. Clients may poll this route. If nothing has changed since the last "
            "request, the status is 304"
        ),
    ),
    Route(
        "profile",
        "P, `start` (0/1, default 1), `retry` (0/1, default 0), `view`",
        (
            "`Profile`. The request triggers loading of the profile unless `start=0`. `retry=1` loads the "
            "profile again after a failure. With `view=distributed`, a rank that has an up-to-date "
            "[summary](../summaries.md) is `ready`, and its trace is not read. A rank that has a summary but no "
            "trace is always `ready`, but the views that need its trace return 404. Poll this route while the profile loads: "
            "loading stops after 15 s without a poll. [HTTP interface](../http.md) explains the progress"
        ),
    ),
    Route(
        "view/<id>",
        "P, S, `known` (0/1, default 0), and the parameters of the view",
        (
            "`View`, including the first page of each table. `known=1` is for views of all workers of a run: "
            "the response then uses only cached data. If nothing is cached or a file has changed, the status "
            "is 202 and the state is `found`"
        ),
    ),
    Route(
        "table/<view>/<table>",
        (
            "P, S, `sort`, `desc` (0/1, default 1), `search` (case-insensitive text, or `/regex/`), `where` "
            "(repeatable, `column:value`, exact match), `min_<column>`, `max_<column>` (inclusive bounds for "
            "an integer column; rows without a value never match), `offset`, `limit` (1..1000, default 100), "
            "`format` (`json`, `csv`)"
        ),
        "`Table`. `format=csv` downloads all matching rows; the header contains the units",
    ),
    Route(
        "download/original",
        "P",
        (
            "the original file of the profile (`Content-Disposition: attachment`). If the profile is a folder, "
            "the response is the main file of this folder. The status is 202 until the profile is loaded, and "
            "502 if the file has changed since then. If loading failed, the response contains the error"
        ),
    ),
    Route(
        "download/window",
        "P, S, `start_ns`, `end_ns`, `packed` (0/1, default 0)",
        (
            "the events that overlap the time range (default: the whole trace), as Chrome JSON for Perfetto. The "
            "export includes track names and launch arrows. `packed=1` returns a .gz file"
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
            "all [merged stacks](../concepts/attribution.md#stacks). `folded` is text that has one line "
            "`outermost;...;innermost N` per stack. `speedscope` is JSON that has one profile per thread. "
            "Both formats use nanoseconds. The status is 404 if the time selected by `weight` is 0 in all stacks"
        ),
    ),
    Route(
        "download/report",
        (
            "P, S, `start_ns`, `end_ns` (window of the timeline), `redact` (0/1, default 0), and `base_run`, "
            "`base_worker`, `base_span` and the other parameters of `diff`, to compare with a baseline"
        ),
        (
            "the pages as one [HTML file](../command-line.md#html) of at most 5 MB. Views of all ranks are included "
            "if they are cached"
        ),
    ),
    Route(
        "tiles",
        "P, `level`, `tiles` (`group.number`, at most 64, comma-separated)",
        "[tiles of the timeline](../http.md#tiles): an Arrow IPC stream",
    ),
    Route(
        "files",
        "`name`",
        (
            "PUT, only in `torch-trace view`: stores the body as a file of this name in a private temporary folder, and "
            "returns its `ProfileName`. The status is 413 for a body larger than `TORCH_TRACE_UPLOAD_MB`, and 422 if "
            "the file is not a profile"
        ),
    ),
    Route(
        "index.js, index.html, assets/*", "", "the files of the page. A file whose name contains a hash never changes"
    ),
)
