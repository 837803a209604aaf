"""Content of the log directory: runs, workers, spans and their states."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from tb_plugin.payloads.base import Figure, WindowInfo
from tb_plugin.payloads.view import ViewInfo

State = Literal["found", "loading", "ready", "failed"]
# Stages of loading in order: waiting, copying a remote file, surveying a file too large to open, reading,
# building the model, writing the column file, summarising.
Stage = Literal["waiting", "copying", "surveying", "reading", "assembling", "writing", "summarising"]


class Problem(Struct, frozen=True):
    """A problem says what happened, where, and what to do; all errors have this shape."""

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
    """Fraction of the file read while loading; for a remote file, copying is the first half. 1 while the model is
    built.
    """
    problem: Problem | None = None
    model: str = ""
    """Kind of the profile: "trace", "snapshot", ..."""
    format: str = ""
    """Format of its files, for users: "PyTorch trace", "MegEngine memory flow", ..."""
    key_figures: list[Figure] = []
    """The first figure of each unit in its headline, once ready."""
    is_empty: bool = False
    """Whether it was read but contains nothing usable."""


class WorkerInfo(Struct, frozen=True):
    """A worker is a process (a rank) of a run."""

    name: str
    spans: list[SpanInfo]


class RunInfo(Struct, frozen=True):
    """A run is a directory with traces, or a distributed job with traces in several directories.

    ``grouped_by`` is the evidence for such a job; it is empty for a directory.
    """

    name: str
    workers: list[WorkerInfo]
    grouped_by: str = ""


class Skipped(Struct, frozen=True):
    """A skipped file or folder is not a profile; ``reason`` says why."""

    path: str
    reason: str


class Catalog(Struct, frozen=True, tag_field="kind", tag="catalog"):
    """A catalog is the answer of ``GET runs``: the content of all log directories."""

    logdir: str
    scanning: bool
    scanned_files: int
    last_scan_unix_ms: int | None
    """None once profiles are listed, so that an unchanged log directory has the same answer (304)."""
    runs: list[RunInfo]
    skipped: list[Skipped]
    problems: list[Problem] = []
    """Why log directories cannot be read now, one each; known profiles stay in ``runs``."""
    perfetto_url: str = ""
    """Address of the Perfetto UI; empty when TORCH_TRACE_PERFETTO is invalid."""


class IssueInfo(Struct, frozen=True):
    """An issue is one kind of irregularity in a file (model/trace/report.py)."""

    code: str
    outcome: str
    text: str
    count: int
    first_offset: int | None
    examples: list[str]
    file: str = ""
    """The file with the issue, if a profile has several."""


class ReadInfo(Struct, frozen=True):
    """A ReadInfo says how the file was read; counts are in ``records``."""

    format: str
    file_bytes: int
    text_bytes: int
    events_in_file: int
    events_loaded: int
    events_repaired: int
    events_dropped: int
    events_quarantined: int
    events_unknown: int
    events_other: int
    events_outside: int
    """Events outside the opened window."""
    complete: bool
    issues: list[IssueInfo]
    records: str = "events"
    """Unit of the counts; empty if the format has nothing to count."""
    cut_files: list[str] = []
    """Truncated files of a profile with several files, by name."""


class StepInfo(Struct, frozen=True):
    """A step can be selected; it has bounds with its device work, and bounds on the host (for allocator events)."""

    label: str
    start_ns: int
    end_ns: int
    host_start_ns: int = 0
    host_end_ns: int = 0
    mode: str = ""
    """Mode of a server step: prefill, decode, mixed, idle, denoising; empty if unknown."""


class ClockInfo(Struct, frozen=True):
    """A ClockInfo is the wall time of a profile, used to align profiles of one process."""

    start_unix_ns: str
    """Wall time of its time 0 as digits, because JavaScript numbers cannot hold it."""
    length_ns: int
    """Time from there to its last event."""


class Loading(Struct, frozen=True):
    """A Loading is the loading progress of a profile.

    ``seconds`` is the time in this stage, ``fraction`` its progress 0..1; None if unknown.
    """

    stage: Stage
    seconds: float
    fraction: float | None
    counts: dict[str, int]
    """Events read so far by kind (model/trace/schema.py, "memory", "outside" and "other"), unordered."""
    about: list[Figure] = []
    """Metadata at the start of the file: devices, versions, rank, options."""


# How a capture was chosen: next to the trace, named by the user, or none.
How = Literal["beside", "named", "none"]


class CaptureInfo(Struct, frozen=True):
    """A CaptureInfo lists the recordings that describe the replayed graphs of a trace."""

    names: list[str]
    """RUN/WORKER/SPAN of each; several if a process has one file per graph."""
    how: How
    beside: list[str]
    """Names of all candidates next to the trace."""
    problem: Problem | None = None
    """Why one of them is not used; numbers are then without it."""
    own: bool = False
    """Whether the trace contains captures itself."""


class Profile(Struct, frozen=True, tag_field="kind", tag="profile"):
    """A Profile is the answer of ``GET profile``: the state of one profile and, once ready, its views."""

    run: str
    worker: str
    span: str
    state: State
    fraction: float
    """As in SpanInfo."""
    events_read: int
    """Events read so far, or all once ready; 0 for the common state of several profiles."""
    problem: Problem | None = None
    views: list[ViewInfo] = []
    steps: list[StepInfo] = []
    read: ReadInfo | None = None
    data_notice_count: int = 0
    """Number of notices about the trace itself (next to the (i))."""
    loading: Loading | None = None
    """None unless it is one profile in the state ``loading``."""
    window: WindowInfo | None = None
    """None unless the profile was opened as a window and is ready."""
    model: str = ""
    """Kind of the profile: "trace", ...; it determines the views. Empty for several profiles."""
    default_view: str = ""
    """The view that opens by default."""
    features: list[str] = []
    """Further features: "steps" to select, "events" to download and open in Perfetto."""
    clock: ClockInfo | None = None
    """None until ready, or if the file has no clock."""
    trace_steps: list[str] = []
    """Labels of all recorded steps of such a trace, for choosing another window."""
    absent: list[ViewInfo] = []
    """Views that do not apply to the trace, and why: hidden in the navigation, but a link may name one."""
    capture: CaptureInfo | None = None
    """None unless it is a ready trace that launches captured graphs."""
