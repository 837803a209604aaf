"""The Python API: profiles, their facts, and tables as pandas DataFrames.

Facts need no pandas; tables without it raise MissingPackage. This one file is all that a user imports.

Facts need no pandas; whoever asks for a table without it gets MissingPackage.
In one file: it is all that a user imports.

>>> import tb_plugin
>>> p = tb_plugin.open("samples/resnet_cpu", span="1")
>>> p.run, p.worker, p.span
('resnet_cpu', 'worker0', '1')
>>> int(p.events().dur_ns.max()) > 0
True

Units are in the names of columns and facts: ``_ns`` is nanoseconds, ``_bytes`` bytes; ratios are 0..1.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import msgspec
from msgspec.structs import replace

from tb_plugin.analysis.base import FLAGS, Params
from tb_plugin.analysis.snapshot import export as memory
from tb_plugin.errors import MissingPackage, NotFoundError
from tb_plugin.facts import facts_of
from tb_plugin.findings import Finding, counted, data_notices, findings
from tb_plugin.payloads import CaptureInfo, ReadInfo, Scalar, View, WindowInfo
from tb_plugin.registry import analysis_by_id, model_of
from tb_plugin.service.answers.profile_questions import Numbers
from tb_plugin.service.catalog import Place, ProfileCatalog
from tb_plugin.service.states import Entry
from tb_plugin.service.workers.pool import InlineWorkers
from tb_plugin.service.workspace import Workspace, open_catalog
from tb_plugin.storage.cache import open_store

if TYPE_CHECKING:
    import pandas as pd

# The view about all workers together.
_OF_JOBS = "distributed"


@overload
def open(
    path_or_url: str,
    run: str | None = None,
    *,
    worker: str,
    span: str | None = None,
    window: str = "",
    capture: str = "",
) -> OpenProfile: ...


@overload
def open(
    path_or_url: str,
    run: str | None = None,
    worker: str | None = None,
    span: str | None = None,
    window: str = "",
    capture: str = "",
) -> OpenProfile | Job: ...


def open(
    path_or_url: str,
    run: str | None = None,
    worker: str | None = None,
    span: str | None = None,
    window: str = "",
    capture: str = "",
) -> OpenProfile | Job:
    """Reads one profile of a trace file, a log directory, or a URL, in this process; several workers are a Job.

    ``run``, ``worker`` and ``span`` select a profile if there are several; ``window`` opens only a part of a long
    trace, as in docs/http.md. A run and span with several workers is a Job unless ``worker`` selects one. ``capture``
    is the recording of the graph captures that a trace replays: RUN/WORKER/SPAN of the log directory, a path or URL, or
    ``none``; the default is a recording next to the trace. Raises the UserErrors of tb_plugin.errors.

    >>> open("samples/resnet_cpu")
    Traceback (most recent call last):
    ...
    tb_plugin.errors.BadRequest: span: There are 2 spans. Choose one: 1, 2.
    """
    catalog = _scanned(str(path_or_url))
    workspace = Workspace(catalog, InlineWorkers(), open_store())
    workspace.captures.allow(capture, _scanned)
    asked = Place(run, worker, span)
    if len(catalog.entries()) == 1 and not window:  # a merged file has its ranks once it is read
        workspace.load(Place())
    if (first := _first_of_job(catalog, asked)) is not None:
        return Job(workspace, Place(*first.key, window, capture))
    found = catalog.find(asked, strict=True).files
    profile = OpenProfile(workspace, Place(found.run, found.worker, found.span, window, capture), found.url)
    _ = profile.read
    return profile


def _first_of_job(catalog: ProfileCatalog, place: Place) -> Entry | None:
    """The first worker of the job that a place names; None where it names a worker, or leaves more open than that.

    What else lies in the run, such as dumps of flight recorders, is no worker of the job, and has spans of its own.
    """
    if place.worker is not None:
        return None
    kind = analysis_by_id(_OF_JOBS).model
    every = catalog.matching(place)
    ranks = [each for each in every if model_of(each.files.reader).type is kind] or every
    places = {(each.files.run, each.files.span) for each in ranks}
    return ranks[0] if len(places) == 1 and len(ranks) > 1 else None


def _scanned(path_or_url: str) -> ProfileCatalog:
    catalog = open_catalog([("", path_or_url)])
    catalog.scan()
    return catalog


class OpenProfile:
    """A loaded profile."""

    def __init__(self, workspace: Workspace, place: Place, url: str) -> None:
        self._workspace = workspace
        self._place = place
        self.url = url
        """Path or URL of the file."""

    def __repr__(self) -> str:
        return f"<profile {self.url}>"

    @property
    def run(self) -> str:
        """Returns the run: the directory of the file, relative to the log directory."""
        return self._place.run or ""

    @property
    def worker(self) -> str:
        """Returns the worker (process, rank)."""
        return self._place.worker or ""

    @property
    def span(self) -> str:
        """Returns the span: "1", "2", ... by time."""
        return self._place.span or ""

    @property
    def read(self) -> ReadInfo:
        """Returns how the file was read: events kept, repaired, dropped, and reasons."""
        summary = self._workspace.load(self._place).summary
        assert summary is not None  # load() raises otherwise
        return summary.read

    @property
    def window(self) -> WindowInfo | None:
        """Returns the opened part of a trace that does not fit into memory; None if all of it is open.

        >>> open("samples/resnet_cpu", span="1").window is None
        True
        """
        summary = self._workspace.load(self._place).summary
        assert summary is not None  # load() raises otherwise
        return summary.window

    @property
    def capture(self) -> CaptureInfo | None:
        """Returns the capture used for replayed graphs, and why it does not match; None without a capture.

        >>> open("samples/resnet_cpu", span="1").capture is None
        True
        """
        self._workspace.captures.waited(self._workspace.load(self._place), self._place.capture)
        return self._workspace.profile(self._place, start=False).capture

    @property
    def facts(self) -> dict[str, int | float | None]:
        """Returns all named numbers, flat.

        >>> p = open("samples/resnet_cpu", span="1")
        >>> p.facts["trace.cpu_ops"] > 0
        True
        """
        return counted(self._numbers.facts, self._numbers.notices)

    @property
    def findings(self) -> list[Finding]:
        """Returns the findings, most important first.

        The saving per step is between ``saving_low_ns`` and ``saving_high_ns``; None if it cannot be estimated.

        >>> best = open("samples/resnet_cpu", span="1").findings[0]
        >>> best.rule, best.saving_low_ns <= best.saving_high_ns
        ('data_loading', True)
        """
        return findings(self._numbers.notices)

    @property
    def data_notices(self) -> list[Finding]:
        """Returns notices about the data: not recorded, repaired or lost.

        >>> [n.rule for n in open("samples/resnet_cpu", span="1").data_notices if n.severity == "high"]
        []
        """
        return data_notices(self._numbers.notices)

    @cached_property
    def _numbers(self) -> Numbers:
        return self._workspace.numbers(self._place)

    def operators(self, by_shape: bool = False) -> pd.DataFrame:
        """Returns operators by name, or by name and input shapes.

        >>> ops = open("samples/resnet_cpu", span="1").operators()
        >>> {"name", "calls", "host_self_ns"} <= set(ops.columns)
        True
        """
        return self.table("operators", "operators_by_shape" if by_shape else "operators")

    def kernels(self, by_launch: bool = False) -> pd.DataFrame:
        """Returns kernels by name, or by name, operator and launch properties; empty without device events."""
        return self.table("kernels", "kernels_by_launch" if by_launch else "kernels")

    def runtime_calls(self, by_caller: bool = False) -> pd.DataFrame:
        """Returns calls of runtime and driver by name, or by name and caller; empty without any.

        >>> list(open("samples/synthetic_gpu").runtime_calls()["name"][:1])
        ['cudaStreamSynchronize']
        """
        return self.table("launches", "runtime_calls_by_caller" if by_caller else "runtime_calls")

    def modules(self) -> pd.DataFrame:
        """Returns nn.Modules, each over all its positions."""
        return self.table("modules", "modules")

    def phases(self, pattern: str = "") -> pd.DataFrame:
        """Returns annotations by name; names that differ only in parts matching ``pattern`` (RE2) are one phase.

        >>> phases = open("samples/resnet_cpu", span="1").phases()
        >>> {"phase", "calls", "host_total_ns"} <= set(phases.columns)
        True
        """
        return self.table("phases", "phases", pattern=pattern)

    def memory_events(self) -> pd.DataFrame:
        """Returns the allocator events of a snapshot or trace, per device by time.

        Snapshot events have their stack, and ``event_number`` counts per device. Trace events are as recorded: a
        release has negative ``bytes``, -1 means not recorded. Raises NotFoundError for other models, MissingPackage.

        >>> events = open("samples/synthetic_memory", worker="leaking").memory_events()
        >>> int((events.memory_action == "alloc").sum())
        628
        """
        _need_pandas()
        frame: pd.DataFrame = memory.events_of(self._made(), self.url).to_pandas()
        return frame

    def memory_blocks(self, at: int | None = None, device: str = "") -> pd.DataFrame:
        """Returns the blocks of a snapshot: those allocated after event ``at`` of a device, or of its whole history.

        The default ``device`` is the one with the most events. Raises NotFoundError for other models, BadRequest,
        MissingPackage.

        >>> p = open("samples/synthetic_memory", worker="leaking")
        >>> bool(p.memory_blocks(at=100).block_size_bytes.sum() > 0), len(p.memory_blocks(at=-1))
        (True, 0)
        """
        _need_pandas()
        frame: pd.DataFrame = memory.blocks_of(self._made(), self.url, at, device).to_pandas()
        return frame

    def _made(self) -> object:
        entry = self._workspace.load(self._place)
        return model_of(entry.files.reader).read(entry.path)

    def table(self, view: str, name: str, steps: str = "", phase: str = "", pattern: str = "") -> pd.DataFrame:
        """Returns any table of any view (see docs/http.md), for selected steps such as ``5,7-9``, or for a phase.

        ``pattern`` matches the parts in which names of one phase may differ. Raises BadRequest, NotFoundError, and
        MissingPackage without pandas.
        """
        asked = Params(phase=phase, pattern=pattern, table=name, limit=None)
        return _table_of(self._workspace, self._place, view, asked, steps)

    def events(self) -> pd.DataFrame:
        """Returns all duration events by time; ``parent``, ``operator`` and ``launch`` are rows.

        -1 means none, or not recorded. ``self_ns`` is the duration minus operators, modules and runtime calls nested
        directly in an operator, module or runtime call; for other events it is the duration.

        Raises MissingPackage without pandas.
        """
        _need_pandas()
        import pandas as pd

        from tb_plugin.model.trace.schema import EventKind
        from tb_plugin.model.trace.table import TraceTable

        trace = self._made()
        if not isinstance(trace, TraceTable):
            raise NotFoundError("Only a trace has events.", self.url, "Use its tables.")
        kinds = pd.CategoricalDtype([kind.name.lower() for kind in sorted(EventKind)])
        columns: dict[str, Any] = {
            "name": trace.strings.take(trace.name).to_pandas(),
            "category": trace.strings.take(trace.category).to_pandas(),
            "kind": pd.Categorical.from_codes(trace.kind.astype("int64").tolist(), dtype=kinds),
            "start_ns": trace.start_ns,
            "dur_ns": trace.dur_ns,
            "self_ns": trace.self_ns,
            "process": [trace.tracks[i].process for i in trace.track.tolist()],
            "thread": [trace.tracks[i].thread for i in trace.track.tolist()],
            "device": trace.device,
            "correlation": trace.correlation,
            "external_id": trace.external_id,
            "parent": trace.parent,
            "operator": trace.operator,
            "launch": trace.launch,
        }
        return pd.DataFrame(columns)


class Job:
    """All workers of a run and span. The profile of a worker is read on demand.

    >>> job = open("samples/synthetic_ddp")
    >>> job.workers
    ['rank0', 'rank1', 'rank2', 'rank3']
    >>> job.ranks.set_index("worker").caused_wait_ns.idxmax()
    'rank2'
    """

    def __init__(self, workspace: Workspace, place: Place) -> None:
        self._workspace = workspace
        self._place = replace(place, worker=None)
        self.workers = [entry.files.worker for entry in workspace.catalog.workers(self._place)]
        """Names of the workers: all traces of the run and span.

        Workers that are not compared (findings ``no_rank``, ``same_rank``, ``other_time``) are in no table of the job.
        """

    def __repr__(self) -> str:
        return f"<job {self.run}: {len(self.workers)} workers>"

    @property
    def run(self) -> str:
        """Returns the run: the directory of the files, relative to the log directory."""
        return self._place.run or ""

    @property
    def span(self) -> str:
        """Returns the span: "1", "2", ... by time."""
        return self._place.span or ""

    @property
    def ranks(self) -> pd.DataFrame:
        """Returns one row per rank of the job: compute, communication, wait, ``caused_wait_ns`` and ``lost_ns``.

        ``lost_ns`` is the time that a step would save if this rank were as fast as the next slowest one; it is 0 or
        noise except for stragglers.

        >>> open("samples/synthetic_ddp").ranks.set_index("worker").lost_ns.idxmax()
        'rank2'
        """
        return self.table("workers")

    @property
    def facts(self) -> dict[str, Scalar]:
        """Returns all named numbers of the job, flat; ``worker(name).facts`` has those of one profile.

        >>> facts = open("samples/synthetic_ddp").facts
        >>> facts["distributed.straggler_rank"], facts["distributed.stragglers"], facts["distributed.absent_ranks"]
        (2, 1, 0)
        """
        return facts_of(self._view)

    @property
    def findings(self) -> list[Finding]:
        """Returns the findings about all workers together, most important first.

        >>> open("samples/synthetic_ddp").findings[0].rule
        'straggler'
        """
        return findings(self._view.payloads.values(), answers=True)

    @property
    def data_notices(self) -> list[Finding]:
        """Returns notices about the data."""
        return data_notices(self._view.payloads.values())

    @cached_property
    def _view(self) -> View:
        return msgspec.json.decode(self._workspace.group(self._place, _OF_JOBS, Params(limit=1)), type=View)

    def table(self, name: str, steps: str = "", view: str = "distributed") -> pd.DataFrame:
        """Returns a table about all workers (see docs/http.md), for selected steps such as ``5,7-9``.

        Raises BadRequest, NotFoundError, and MissingPackage without pandas.

        >>> sorted(open("samples/synthetic_ddp").table("operations").collective.unique())
        ['all_reduce']
        """
        return _table_of(self._workspace, self._place, view, Params(table=name, limit=None), steps)

    def worker(self, name: str) -> OpenProfile:
        """Reads the profile of one worker. Raises NotFoundError."""
        place = replace(self._place, worker=name)
        profile = OpenProfile(self._workspace, place, self._workspace.catalog.find(place).files.url)
        _ = profile.read
        return profile


def _table_of(workspace: Workspace, place: Place, view: str, asked: Params, steps: str) -> pd.DataFrame:
    _need_pandas()
    import pyarrow as pa

    data = pa.ipc.open_stream(workspace.arrow(place, view, asked, steps)).read_all()
    frame: pd.DataFrame = data.to_pandas()
    for field in data.schema:
        if pa.types.is_dictionary(field.type):
            frame[field.name] = [FLAGS.get(str(value), value) for value in frame[field.name]]
    return frame


def _need_pandas() -> None:
    """Raises MissingPackage where pandas, which only a DataFrame needs, is not installed."""
    try:
        import pandas  # noqa: F401 (only to see whether it is there)
    except ModuleNotFoundError as error:
        raise MissingPackage("A DataFrame needs pandas.", "", "pip install 'torch-trace-tb[pandas]'") from error
