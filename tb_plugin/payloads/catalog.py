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
    """An error: what happened, where, and what to do."""

    what: str
    where: str
    do: str


class SpanInfo(Struct, frozen=True):
    """One profile of a worker.

    ``id`` is used in URLs ("1", "2", ... sorted by time). ``time_unix_ms`` is its wall-clock time, if known.
    """

    id: str
    time_unix_ms: int | None
    files: list[str]
    size_bytes: int
    state: State
    fraction: float
    """Fraction of the file read so far, 0..1. For a remote file, copying is the first half."""
    problem: Problem | None = None
    model: str = ""
    """Model of the profile: "trace", "snapshot", ..."""
    format: str = ""
    """User-facing name of the file format, such as "PyTorch trace"."""
    key_figures: list[Figure] = []
    """The first headline figure of each unit, once the profile is ready."""
    is_empty: bool = False
    """Whether it was read but contains no usable data."""


class WorkerInfo(Struct, frozen=True):
    """A process (rank) of a run."""

    name: str
    spans: list[SpanInfo]


class RunInfo(Struct, frozen=True):
    """A directory with traces, or a distributed job with traces in several directories.

    ``grouped_by`` explains why the directories are one job; it is empty for a single directory.
    """

    name: str
    workers: list[WorkerInfo]
    grouped_by: str = ""


class Skipped(Struct, frozen=True):
    """A file or folder that is not a profile; ``reason`` says why."""

    path: str
    reason: str


class Catalog(Struct, frozen=True, tag_field="kind", tag="catalog"):
    """The response of ``GET runs``: the content of all log directories."""

    logdir: str
    scanning: bool
    scanned_files: int
    last_scan_unix_ms: int | None
    """None if there are profiles, so that the response changes only with the log directory."""
    runs: list[RunInfo]
    skipped: list[Skipped]
    problems: list[Problem] = []
    """One error per unreadable log directory. Its known profiles stay in ``runs``."""
    perfetto_url: str = ""
    """Address of the Perfetto UI; empty if TORCH_TRACE_PERFETTO is invalid."""


class IssueInfo(Struct, frozen=True):
    """One kind of problem in a file (model/trace/report.py)."""

    code: str
    outcome: str
    text: str
    count: int
    first_offset: int | None
    examples: list[str]
    file: str = ""
    """File with the issue, if the profile has several."""


class ReadInfo(Struct, frozen=True):
    """How the file was read.

    ``records`` is the unit of the counts.
    """

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
    """Names of truncated files, for a profile with several files."""


class StepInfo(Struct, frozen=True):
    """A step that can be selected.

    Its bounds include its device work. Separate host bounds are used for allocator events.
    """

    label: str
    start_ns: int
    end_ns: int
    host_start_ns: int = 0
    host_end_ns: int = 0
    mode: str = ""
    """Mode of a server step: prefill, decode, mixed, idle or denoising; empty if unknown."""


class ClockInfo(Struct, frozen=True):
    """Wall-clock time of a profile, used to align profiles of one process."""

    start_unix_ns: str
    """Wall-clock time of time 0 as digits, because JavaScript numbers are not precise enough."""
    length_ns: int
    """Time from time 0 to the last event."""


class Loading(Struct, frozen=True):
    """Loading progress of a profile.

    ``seconds`` is the time in the current stage; ``fraction`` is its progress 0..1, None if unknown.
    """

    stage: Stage
    seconds: float
    fraction: float | None
    counts: dict[str, int]
    """Events read so far by kind: those of model/trace/schema.py, "memory", "outside" and "other"."""
    about: list[Figure] = []
    """Metadata from the start of the file: devices, versions, rank, options."""


# How a capture was chosen: next to the trace, named by the user, or none.
How = Literal["beside", "named", "none"]


class CaptureInfo(Struct, frozen=True):
    """The recordings of the graphs that a trace replays."""

    names: list[str]
    """RUN/WORKER/SPAN of each; several if each graph has its own file."""
    how: How
    beside: list[str]
    """Names of all possible captures next to the trace."""
    problem: Problem | None = None
    """Why a capture is not used. The numbers then exclude it."""
    own: bool = False
    """Whether the trace contains captures itself."""


class Profile(Struct, frozen=True, tag_field="kind", tag="profile"):
    """The response of ``GET profile``: the state of a profile and its views."""

    run: str
    worker: str
    span: str
    state: State
    fraction: float
    """Fraction of the file read so far, 0..1. For a remote file, copying is the first half."""
    events_read: int
    """Events read so far; 0 for the combined state of several profiles."""
    problem: Problem | None = None
    views: list[ViewInfo] = []
    steps: list[StepInfo] = []
    read: ReadInfo | None = None
    data_notice_count: int = 0
    """Number of notices about the trace itself, shown next to the (i)."""
    loading: Loading | None = None
    """None unless it is a single profile that is loading."""
    window: WindowInfo | None = None
    """None unless the profile is ready and was opened as a window."""
    model: str = ""
    """Model of the profile, such as "trace"; it determines the views. Empty for several profiles."""
    default_view: str = ""
    features: list[str] = []
    """Supported page features: "steps" to select steps, "events" to download events and open them in Perfetto."""
    clock: ClockInfo | None = None
    """None until the profile is ready, or if the file has no clock."""
    trace_steps: list[str] = []
    """Labels of all steps of the trace, to choose another window. Empty without a window."""
    absent: list[ViewInfo] = []
    """Views that do not apply to the trace, and why. They are not in the navigation, but links may lead to them."""
    capture: CaptureInfo | None = None
    """None unless it is a ready trace that launches captured graphs."""
