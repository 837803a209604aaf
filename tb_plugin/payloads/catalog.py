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
    what: str
    where: str
    do: str


class SpanInfo(Struct, frozen=True):
    """One profile of a worker.

    ``id`` is used in URLs: "1", "2", ... in order of time. ``time_unix_ms`` is the wall-clock time of the profile,
    if known.
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
    format: str = ""
    key_figures: list[Figure] = []
    """Key numbers of a profile that is ready: the first headline number of each unit."""
    is_empty: bool = False
    """True if the profile was read and contains no usable data."""
    modified_unix_ms: int | None = None
    """Last modification of the newest file, by the clock of the storage; None if not reported."""
    device: str | None = None
    """Name of the devices with recorded work, empty without such work. None until the profile is read."""
    step_count: int | None = None
    """Number of recorded steps. None until the profile is read."""


class WorkerInfo(Struct, frozen=True):
    name: str
    spans: list[SpanInfo]


class RunInfo(Struct, frozen=True):
    """A directory with traces, or a distributed job with traces in several directories.

    ``grouped_by`` explains why the directories belong to one job. It is empty for a single directory.
    """

    name: str
    workers: list[WorkerInfo]
    grouped_by: str = ""
    title: str = ""
    """Title in the file ``torch_trace_titles`` of the log directory."""
    is_first: bool = False
    """Whether the run is marked to open first."""
    is_invented: bool = False
    """Whether the run is marked as simulated."""


class ProfileName(Struct, frozen=True):
    run: str
    worker: str
    span: str


class Skipped(Struct, frozen=True):
    path: str
    reason: str


class PathMapping(Struct, frozen=True):
    """A folder of recorded paths, and the local folder that editor links open instead."""

    recorded: str
    local: str


class Catalog(Struct, frozen=True, tag_field="kind", tag="catalog"):
    """The response of ``GET runs``: the content of all log directories."""

    logdir: str
    scanning: bool
    scanned_files: int
    last_scan_unix_ms: int | None
    """None if there are profiles. Otherwise the response would change with every scan."""
    runs: list[RunInfo]
    skipped: list[Skipped]
    problems: list[Problem] = []
    """One error per unreadable log directory, whose earlier profiles stay in ``runs``, and per invalid setting."""
    perfetto_url: str = ""
    """Address of the Perfetto UI; empty if TORCH_TRACE_PERFETTO is invalid."""
    first: ProfileName | None = None
    """The profile that opens if a URL names none: the newest recording with device work."""
    path_mappings: list[PathMapping] = []
    upload_limit_bytes: int = 0
    """Maximum size of a file that a user may drop on the page; 0 = the page opens no files, as in TensorBoard."""


class IssueInfo(Struct, frozen=True):
    """One kind of problem in a file (see model/trace/report.py)."""

    code: str
    outcome: str
    text: str
    count: int
    first_offset: int | None
    examples: list[str]
    file: str = ""


class ReadInfo(Struct, frozen=True):
    """How many events of the file were loaded, repaired or dropped, and why. ``records`` is the unit of these numbers."""

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
    complete: bool
    issues: list[IssueInfo]
    records: str = "events"
    """Unit of the numbers of events; empty if the format has no such unit."""
    cut_files: list[str] = []
    """Names of truncated and damaged files, if the profile has several files."""
    is_damaged: bool = False
    """True if bytes of a file are wrong. False if a file is only truncated."""


class StepInfo(Struct, frozen=True):
    """A step that can be selected.

    Start and end include the device work of the step. For allocator events, the host start and the host end are
    used.
    """

    label: str
    start_ns: int
    end_ns: int
    host_start_ns: int = 0
    host_end_ns: int = 0
    mode: str = ""
    """Mode of a server step: prefill, decode, mixed, idle or denoising; empty if unknown."""


class ClockInfo(Struct, frozen=True):
    """Wall-clock time of a profile, used to align the profiles of one process."""

    start_unix_ns: str
    """Wall-clock time of time 0, as digits, because JavaScript numbers are not precise enough."""
    length_ns: int
    """Time from time 0 to the last event."""


class Loading(Struct, frozen=True):
    """Loading progress of a profile.

    ``seconds`` is the time since the current stage started. ``fraction`` is the progress of this stage, 0..1; None
    = unknown.
    """

    stage: Stage
    seconds: float
    fraction: float | None
    counts: dict[str, int]
    """Number of events read so far, by kind: the kinds in model/trace/schema.py, "memory", "outside" and "other"."""
    about: list[Figure] = []
    """Metadata from the start of the file: devices, versions, rank, options."""


# How a capture was chosen: next to the trace, named by the user, or none.
How = Literal["beside", "named", "none"]


class CaptureInfo(Struct, frozen=True):
    """The captures of the CUDA graphs that a trace replays."""

    names: list[str]
    """RUN/WORKER/SPAN of each capture. There are several if each graph has its own file."""
    how: How
    beside: list[str]
    """Names of all possible captures in the folder of the trace."""
    problem: Problem | None = None
    own: bool = False


class Profile(Struct, frozen=True, tag_field="kind", tag="profile"):
    """The response of ``GET profile``: the state of a profile and its views."""

    run: str
    worker: str
    span: str
    state: State
    fraction: float
    events_read: int
    """Number of events read so far; 0 for the combined state of several profiles."""
    problem: Problem | None = None
    views: list[ViewInfo] = []
    steps: list[StepInfo] = []
    read: ReadInfo | None = None
    data_notice_count: int = 0
    """Number of notices about the trace itself, shown next to the (i)."""
    loading: Loading | None = None
    """Set only for a single profile that is loading."""
    window: WindowInfo | None = None
    """Set only for a profile that is ready and open as a window."""
    model: str = ""
    default_view: str = ""
    features: list[str] = []
    """Supported page features: "steps" to select steps, "events" to download events and open them in Perfetto."""
    clock: ClockInfo | None = None
    """None until the profile is ready, and for files that have no clock."""
    trace_steps: list[str] = []
    """Labels of all steps of the trace, to choose another window. Empty if the whole trace is open."""
    absent: list[ViewInfo] = []
    """Views that do not apply, with reasons. They are not in the navigation, but links may lead to them."""
    capture: CaptureInfo | None = None
    """Set only for a trace that is ready and launches CUDA graphs."""
    device_word: str = "GPU"
    """Word for the devices of the profile: GPU, NPU or Device."""
