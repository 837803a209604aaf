"""What the log directory holds: runs, workers, spans and their states."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from tb_plugin.payloads.base import Figure, WindowInfo
from tb_plugin.payloads.view import ViewInfo

State = Literal["found", "loading", "ready", "failed"]
Stage = Literal["waiting", "copying", "surveying", "reading", "assembling", "writing", "summarising"]
"""Of loading, in order: for a free worker or a turn to copy, a remote file into the cache, what is when in a file that is
too large to be opened whole, the file, the model, the column file, what ``Profile`` says once it is ready."""


class Problem(Struct, frozen=True):
    """A problem says what happened, where, and what to do: every error has this shape."""

    what: str
    where: str
    do: str


class SpanInfo(Struct, frozen=True):
    """A span is one profile. ``id`` is its key in URLs ("1", "2", ... by time); ``time_unix_ms`` its wall time or None."""

    id: str
    time_unix_ms: int | None
    files: list[str]
    size_bytes: int
    state: State
    fraction: float
    """How much of the file is read, while loading; copying is the first half of a remote one. 1 while the model is built."""
    problem: Problem | None = None
    model: str = ""
    """What the profile is: "trace", "snapshot", ..."""
    format: str = ""
    """What its files are, for people: "PyTorch trace", "MegEngine memory flow", ..."""
    key_figures: list[Figure] = []
    """The first figure of each unit in its headline, once it is ready."""
    is_empty: bool = False
    """Whether it was read and nothing was in it that could be kept."""


class WorkerInfo(Struct, frozen=True):
    """A worker is a process (a rank) of a run."""

    name: str
    spans: list[SpanInfo]


class RunInfo(Struct, frozen=True):
    """A run is a directory with traces, or a distributed job whose traces lie in several.

    ``grouped_by`` says of such a job what of its files is taken as the evidence; it is empty for a directory.
    """

    name: str
    workers: list[WorkerInfo]
    grouped_by: str = ""


class Skipped(Struct, frozen=True):
    """A skipped file, or folder that is one thing, is no profile; ``reason`` says what it is."""

    path: str
    reason: str


class Catalog(Struct, frozen=True, tag_field="kind", tag="catalog"):
    """A catalog is the answer of ``GET runs``: everything that the log directories hold."""

    logdir: str
    scanning: bool
    scanned_files: int
    last_scan_unix_ms: int | None
    """None also once profiles are listed: a log directory that stays as it is then has the same answer (304)."""
    runs: list[RunInfo]
    skipped: list[Skipped]
    problems: list[Problem] = []
    """Why log directories cannot be read now, one each; profiles that were known before stay in ``runs``."""
    perfetto_url: str = ""
    """Where the Perfetto UI is that the page opens on a click; empty when TORCH_TRACE_PERFETTO is no address."""


class IssueInfo(Struct, frozen=True):
    """An issue is one kind of irregularity that was met while reading (model/trace/report.py)."""

    code: str
    outcome: str
    text: str
    count: int
    first_offset: int | None
    examples: list[str]
    file: str = ""
    """The file that it was met in, where a profile has several."""


class ReadInfo(Struct, frozen=True):
    """A ReadInfo says how the file was read; counts are of ``records``."""

    format: str
    file_bytes: int
    text_bytes: int
    events_seen: int
    events_kept: int
    events_repaired: int
    events_dropped: int
    events_quarantined: int
    events_unknown: int
    events_other: int
    events_outside: int
    """Events that lie outside the window that was opened."""
    complete: bool
    issues: list[IssueInfo]
    records: str = "events"
    """What the counts count; empty where the format has nothing to count."""
    cut_files: list[str] = []
    """Files of a profile of several that end early, by name."""


class StepInfo(Struct, frozen=True):
    """A step can be chosen; its bounds are those with its work on devices, and those on the host (for allocator events)."""

    label: str
    start_ns: int
    end_ns: int
    host_start_ns: int = 0
    host_end_ns: int = 0
    mode: str = ""
    """What a server did in it: prefill, decode, mixed, idle, denoising; empty where nobody knows."""


class ClockInfo(Struct, frozen=True):
    """A ClockInfo says when in wall time a profile was recorded: what profiles of one process are laid side by side by."""

    start_unix_ns: str
    """Wall time of its time 0, in digits: numbers of JavaScript cannot hold it."""
    length_ns: int
    """From there to its last event."""


class Loading(Struct, frozen=True):
    """A Loading says where the loading of a profile stands.

    ``seconds`` have passed in this stage, of which ``fraction`` is done, 0..1; None where nobody can know how much.
    """

    stage: Stage
    seconds: float
    fraction: float | None
    counts: dict[str, int]
    """Events read so far by kind (model/trace/schema.py, "memory", "outside" and "other"), in no order."""
    about: list[Figure] = []
    """What the file states ahead of its events: devices, versions, rank, options."""


How = Literal["beside", "named", "none"]
"""How a capture was chosen: it lies beside the trace, a person named it, or there is none."""


class CaptureInfo(Struct, frozen=True):
    """A CaptureInfo says which recordings tell of the graphs that a trace replays."""

    names: list[str]
    """Run, worker and span of each with slashes between them; of a process that has a file for each graph several."""
    how: How
    beside: list[str]
    """Names of all that lie beside the trace and could be meant."""
    problem: Problem | None = None
    """Why one of them tells nothing: the numbers are then those without it."""
    own: bool = False
    """The trace holds captures itself."""


class Profile(Struct, frozen=True, tag_field="kind", tag="profile"):
    """A Profile is the answer of ``GET profile``: the state of one profile and, once ready, what can be asked of it."""

    run: str
    worker: str
    span: str
    state: State
    fraction: float
    """The same as in SpanInfo."""
    events_read: int
    """So far while loading, all once ready; 0 for the common state of several profiles."""
    problem: Problem | None = None
    views: list[ViewInfo] = []
    steps: list[StepInfo] = []
    read: ReadInfo | None = None
    data_notice_count: int = 0
    """Notices about the trace itself (the count beside the (i))."""
    loading: Loading | None = None
    """None unless one profile is meant and its state is ``loading``."""
    window: WindowInfo | None = None
    """None unless the profile was opened as a window and is ready."""
    model: str = ""
    """What the profile is: "trace", ...; it decides which views there are. Empty for several profiles."""
    default_view: str = ""
    """The view that opens when nobody names one."""
    features: list[str] = []
    """What else it has: "steps" to choose from, "events" to download and to open in Perfetto."""
    clock: ClockInfo | None = None
    """None until it is ready, and where the file does not tell."""
    trace_steps: list[str] = []
    """Labels of all recorded steps of such a trace: where another window may begin."""
    absent: list[ViewInfo] = []
    """Views that the trace is not about, and why: the navigation leaves them out, a link may name one."""
    capture: CaptureInfo | None = None
    """None unless it is a trace that launches captured graphs, and ready."""
