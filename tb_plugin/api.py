"""The Python API: profiles, their facts, and tables as pandas DataFrames.

In one file: users read it as the reference of the API.

Only tables need pandas. Without pandas, a table raises MissingPackage. Users import this module only.

>>> import tb_plugin
>>> p = tb_plugin.open("samples/resnet_cpu", span="1")
>>> p.run, p.worker, p.span
('resnet_cpu', 'worker0', '1')
>>> int(p.events().dur_ns.max()) > 0
True

Names of columns and facts end in the unit: ``_ns`` for nanoseconds, ``_bytes`` for bytes. Ratios are 0..1.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import msgspec
from msgspec.structs import replace

from tb_plugin.analysis.base import FLAGS, Params
from tb_plugin.analysis.snapshot import block_tables as memory
from tb_plugin.errors import BadRequest, MissingPackage, NotFoundError
from tb_plugin.findings import Findings, data_notices, facts_of, findings, with_finding_count
from tb_plugin.notebook.view_html import view_html
from tb_plugin.payloads import CaptureInfo, ReadInfo, Scalar, Table, View, WindowInfo
from tb_plugin.registry import analysis_by_id, model_of
from tb_plugin.service.answers.questions import Numbers
from tb_plugin.service.answers.sql_answers import sql_over, sql_profiles
from tb_plugin.service.catalog import Place, ProfileCatalog
from tb_plugin.service.profile_files import Root
from tb_plugin.service.profile_pair import Pair, pair_view
from tb_plugin.service.states import Entry
from tb_plugin.service.workers.pool import InlineWorkers
from tb_plugin.service.workspace import Workspace, open_catalog
from tb_plugin.storage.cache import open_store

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    import pyarrow as pa

    from tb_plugin.notebook.page import Page

# View of all workers.
_OF_JOBS = "distributed"
# Rows of a table of a job or comparison in a notebook.
_SHOWN_ROWS = 8
# Tables of a comparison of traces in a notebook.
_COMPARED = ("operators", "kernels")


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
    """Opens a trace file, log directory or URL.

    ``run``, ``worker`` and ``span`` select a profile if there are several. If ``worker`` is None and the run and span
    have several workers, returns a Job. ``window`` opens only a part of a long trace (see docs/http.md). ``capture``
    selects the capture of the CUDA graphs that a trace replays: RUN/WORKER/SPAN in the log directory, a path, a URL,
    or ``none``. By default, a capture in the folder of the trace is used. Raises the UserErrors in tb_plugin.errors.

    >>> open("samples/resnet_cpu")
    Traceback (most recent call last):
    ...
    tb_plugin.errors.BadRequest: span: There are 2 spans. Choose one: 1, 2.
    """
    catalog = _scanned(str(path_or_url))
    workspace = Workspace(catalog, InlineWorkers(), open_store())
    workspace.captures.allow(capture, _scanned)
    asked = Place(run, worker, span)
    if len(catalog.entries()) == 1 and not window:  # the ranks of a merged file are known only after reading it
        workspace.load(Place())
    if (first := _first_of_job(catalog, asked)) is not None:
        return Job(workspace, Place(*first.key, window, capture))
    found = catalog.find(asked, strict=True).files
    profile = OpenProfile(workspace, Place(found.run, found.worker, found.span, window, capture), found.url)
    _ = profile.read
    return profile


def _first_of_job(catalog: ProfileCatalog, place: Place) -> Entry | None:
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

    def __repr__(self) -> str:
        return f"<profile {self.url}>"

    def _repr_html_(self) -> str:
        views = (view.id for view in self._workspace.offered(self._place) if view.available)
        first = next(view for view in views if analysis_by_id(view).scope == "profile")
        view = msgspec.json.decode(self._workspace.answer(self._place, first, Params(limit=1)), type=View)
        return view_html(f"{self.run} / {self.worker} / span {self.span}", view)

    def show(self, view: str = "", height: int = 700, proxy: str = "") -> Page:
        """Returns the page of Torch Trace, which a notebook shows in a frame.

        The page belongs to this kernel and ends with it. ``view`` opens a view, such as ``timeline``. If the kernel runs
        on another machine, install jupyter-server-proxy there, and pass its path as ``proxy``: ``/proxy/``, or
        ``/user/NAME/proxy/`` on JupyterHub. Raises BadRequest.
        """
        return _page(self._workspace, self._place, view, height, proxy)

    def diff(self, other: OpenProfile) -> Comparison:
        """Compares another profile with this one, which is the baseline. Raises BadRequest.

        >>> change = open("samples/synthetic_ddp", worker="rank0").diff(open("samples/synthetic_ddp", worker="rank2"))
        >>> bool(change.table("kernels").delta_total_ns.max() > 0)
        True
        """
        return Comparison(self, other)

    @property
    def run(self) -> str:
        """Returns the run, which is the directory of the trace relative to the log directory."""
        return self._place.run or ""

    @property
    def worker(self) -> str:
        """Returns the worker, which is a process or a rank."""
        return self._place.worker or ""

    @property
    def span(self) -> str:
        """Returns the span: "1", "2", ... in order of time."""
        return self._place.span or ""

    @property
    def read(self) -> ReadInfo:
        """Returns how many events of the file were loaded, repaired or dropped, and why."""
        summary = self._workspace.load(self._place).summary
        assert summary is not None  # load() raises otherwise
        return summary.read

    @property
    def window(self) -> WindowInfo | None:
        """Returns the window that is open, or None if the whole trace is open.

        >>> open("samples/resnet_cpu", span="1").window is None
        True
        """
        summary = self._workspace.load(self._place).summary
        assert summary is not None  # load() raises otherwise
        return summary.window

    @property
    def capture(self) -> CaptureInfo | None:
        """Returns the captures of the CUDA graphs that the trace replays, or None if it replays no graph.

        >>> open("samples/resnet_cpu", span="1").capture is None
        True
        """
        self._workspace.captures.waited(self._workspace.load(self._place), self._place.capture)
        return self._workspace.profile(self._place, start=False).capture

    @property
    def facts(self) -> dict[str, int | float | None]:
        """Returns all facts: numbers by name.

        >>> p = open("samples/resnet_cpu", span="1")
        >>> p.facts["trace.cpu_ops"] > 0
        True
        """
        return with_finding_count(self._numbers.facts, self._numbers.notices)

    @property
    def findings(self) -> Findings:
        """Returns the findings, most important first.

        The time saved per step is between ``saving_low_ns`` and ``saving_high_ns``. Both are None if unknown.

        >>> best = open("samples/resnet_cpu", span="1").findings[0]
        >>> best.rule, best.saving_low_ns <= best.saving_high_ns
        ('data_loading', True)
        """
        return Findings(findings(self._numbers.notices))

    @property
    def data_notices(self) -> Findings:
        """Returns notices about missing, repaired or lost data.

        >>> [n.rule for n in open("samples/resnet_cpu", span="1").data_notices if n.severity == "high"]
        []
        """
        return Findings(data_notices(self._numbers.notices))

    @cached_property
    def _numbers(self) -> Numbers:
        return self._workspace.numbers(self._place)

    def operators(self, by_shape: bool = False) -> pd.DataFrame:
        """Returns one row per operator name. With ``by_shape``, one row per name and input shapes.

        >>> ops = open("samples/resnet_cpu", span="1").operators()
        >>> {"name", "calls", "host_self_ns"} <= set(ops.columns)
        True
        """
        return self.table("operators", "operators_by_shape" if by_shape else "operators")

    def kernels(self, by_launch: bool = False) -> pd.DataFrame:
        """Returns one row per kernel name. With ``by_launch``, one row per name, operator and launch configuration."""
        return self.table("kernels", "kernels_by_launch" if by_launch else "kernels")

    def runtime_calls(self, by_caller: bool = False) -> pd.DataFrame:
        """Returns one row per runtime or driver function. With ``by_caller``, one row per function and caller.

        >>> list(open("samples/synthetic_gpu").runtime_calls()["name"][:1])
        ['cudaStreamSynchronize']
        """
        return self.table("launches", "runtime_calls_by_caller" if by_caller else "runtime_calls")

    def modules(self) -> pd.DataFrame:
        """Returns one row per ``nn.Module``. Each row is the sum over all calls of the module."""
        return self.table("modules", "modules")

    def phases(self, pattern: str = "") -> pd.DataFrame:
        """Returns one row per annotation name.

        Names form one row if they differ only in text that matches the RE2 ``pattern``.

        >>> phases = open("samples/resnet_cpu", span="1").phases()
        >>> {"phase", "calls", "host_total_ns"} <= set(phases.columns)
        True
        """
        return self.table("phases", "phases", pattern=pattern)

    def memory_events(self) -> pd.DataFrame:
        """Returns the allocator events of a snapshot or trace, in order of device and time.

        Events of a snapshot include stacks, and ``event_number`` is the index of the event on its device. In a trace,
        ``bytes`` of a release is negative, and -1 in other columns means not recorded. Raises NotFoundError for all
        other profiles, MissingPackage.

        >>> events = open("samples/synthetic_memory", worker="leaking").memory_events()
        >>> int((events.memory_action == "alloc").sum())
        628
        """
        _need_pandas()
        frame: pd.DataFrame = memory.events_of(self._made(), self.url).to_pandas()
        return frame

    def memory_blocks(self, at: int | None = None, device: str = "") -> pd.DataFrame:
        """Returns the memory blocks of a snapshot that are allocated just after event ``at``.

        If ``at`` is None, returns the blocks of the whole history. By default, ``device`` is the device that has the
        most events. Raises NotFoundError for all other profiles, BadRequest, MissingPackage.

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

    def sql(self, query: str) -> pa.Table:
        """Returns the rows of one SELECT over the tables of docs/reference/sql.md.

        Convert them with ``to_pandas()``, or with ``polars.from_arrow()``. Raises BadRequest, MissingPackage.

        >>> open("samples/resnet_cpu", span="1").sql("select count(*) as steps from steps").to_pylist()
        [{'steps': 3}]
        """
        return _sql(self._workspace, [self._place], query)

    def table(self, view: str, name: str, steps: str = "", phase: str = "", pattern: str = "") -> pd.DataFrame:
        """Returns a table of a view (see docs/http.md).

        ``steps`` selects steps, such as ``5,7-9``. ``phase`` selects a phase. Names belong to one phase if they differ
        only in text that matches ``pattern``. Raises BadRequest, NotFoundError, MissingPackage.
        """
        asked = Params(phase=phase, pattern=pattern, table=name, limit=None)
        return _table_of(self._workspace, self._place, view, asked, steps)

    def what_if(self, *scales: str, steps: str = "") -> pd.DataFrame:
        """Returns the time that changes save per step, as estimated bounds in nanoseconds.

        A change is work and the factor of its time, such as ``operator:aten::mm=0.5`` or ``copies=0``. Without changes,
        the result has the ten that save most. Waits for other ranks stay as recorded; ``Job.what_if`` simulates all ranks.
        Raises BadRequest, NotFoundError, MissingPackage.
        """
        asked = Params(table="whatif", limit=None, extra=tuple(("scale", scale) for scale in scales))
        return _table_of(self._workspace, self._place, "whatif", asked, steps)

    def events(self) -> pd.DataFrame:
        """Returns all duration events, in order of time.

        ``parent``, ``operator`` and ``launch`` are row numbers; -1 = none or not recorded. ``self_ns`` of an operator, module
        or runtime call excludes the operators, modules and runtime calls nested in it. For all other events, it is the
        duration. Raises MissingPackage.
        """
        _need_pandas()
        import pandas as pd

        from tb_plugin.model.trace.schema import EventKind
        from tb_plugin.model.trace.table import TraceTable

        trace = self._made()
        if not isinstance(trace, TraceTable):
            raise NotFoundError("Only a trace has events.", self.url, "Use the tables of this profile instead.")
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
    """All workers of a run and span. Each profile is loaded when it is first needed.

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
        """Names of all workers of the run and span.

        Tables omit each worker that cannot be compared. The findings ``no_rank``, ``same_rank``, ``other_world_size`` and
        ``other_time`` explain why.
        """

    def __repr__(self) -> str:
        return f"<job {self.run}: {len(self.workers)} workers>"

    def _repr_html_(self) -> str:
        return view_html(f"{self.run} / {len(self.workers)} workers / span {self.span}", self._view, ("workers",))

    def show(self, view: str = _OF_JOBS, height: int = 700, proxy: str = "") -> Page:
        """Returns the page of all ranks, which a notebook shows in a frame (see OpenProfile.show)."""
        return _page(self._workspace, self._place, view, height, proxy)

    @property
    def run(self) -> str:
        """Returns the run, which is the directory of the traces relative to the log directory."""
        return self._place.run or ""

    @property
    def span(self) -> str:
        """Returns the span: "1", "2", ... in order of time."""
        return self._place.span or ""

    @property
    def ranks(self) -> pd.DataFrame:
        """Returns one row per rank, with compute, communication and wait times.

        ``caused_wait_ns`` is the time that all other ranks wait for this rank. ``lost_ns`` is the time per step that
        would be saved if this rank were as fast as the next slowest rank. It is close to 0 except for stragglers.

        >>> open("samples/synthetic_ddp").ranks.set_index("worker").lost_ns.idxmax()
        'rank2'
        """
        return self.table("workers")

    @property
    def facts(self) -> dict[str, Scalar]:
        """Returns all facts of the job: numbers by name.

        Use ``worker(name).facts`` for the facts of one worker.

        >>> facts = open("samples/synthetic_ddp").facts
        >>> facts["distributed.straggler_rank"], facts["distributed.stragglers"], facts["distributed.absent_ranks"]
        (2, 1, 0)
        """
        return facts_of(self._view)

    @property
    def findings(self) -> Findings:
        """Returns the findings of the page Ranks, most important first.

        >>> open("samples/synthetic_ddp").findings[0].rule
        'straggler'
        """
        return Findings(findings(self._view.payloads.values(), answers=True))

    @property
    def data_notices(self) -> Findings:
        """Returns notices about missing, repaired or lost data."""
        return Findings(data_notices(self._view.payloads.values()))

    @cached_property
    def _view(self) -> View:
        return msgspec.json.decode(self._workspace.group(self._place, _OF_JOBS, Params(limit=_SHOWN_ROWS)), type=View)

    def table(self, name: str, steps: str = "", view: str = "distributed") -> pd.DataFrame:
        """Returns a table of a view of all workers (see docs/http.md).

        ``steps`` selects steps, such as ``5,7-9``. Raises BadRequest, NotFoundError, MissingPackage.

        >>> sorted(open("samples/synthetic_ddp").table("operations").collective.unique())
        ['all_reduce']
        """
        return _table_of(self._workspace, self._place, view, Params(table=name, limit=None), steps)

    def critical_path(self, steps: str = "") -> pd.DataFrame:
        """Returns the time of each rank on the critical path of the job, mean per step.

        Raises BadRequest, MissingPackage.

        >>> open("samples/synthetic_ddp").critical_path().worker[0]
        'rank2'
        """
        asked = Params(table="job_path", limit=None, extra=(("path", "1"),))
        return _table_of(self._workspace, self._place, "distributed", asked, steps)

    def what_if(self, *scales: str, ranks: Sequence[str] = ()) -> pd.DataFrame:
        """Returns the time that changes save per step of the job, in nanoseconds (see ``OpenProfile.what_if``).

        ``ranks`` selects ranks whose work changes; empty: all ranks. Raises BadRequest, NotFoundError, MissingPackage.

        >>> open("samples/synthetic_ddp").what_if("class:gemm=0.5").change.tolist()
        ['class:gemm=0.5']
        """
        extra = (*(("scale", scale) for scale in scales), *(("on", rank) for rank in ranks))
        return _table_of(self._workspace, self._place, _OF_JOBS, Params(table="whatif", limit=None, extra=extra), "")

    def sql(self, query: str) -> pa.Table:
        """Returns the rows of one SELECT over all ranks. Each table has the column ``rank`` (see OpenProfile.sql).

        >>> job = open("samples/synthetic_ddp")
        >>> job.sql("select rank, count(*) as steps from steps group by rank order by rank").to_pylist()[0]
        {'rank': 'rank0', 'steps': 3}
        """
        places = [replace(self._place, worker=name) for name in self.workers]
        return _sql(self._workspace, places, query)

    def worker(self, name: str) -> OpenProfile:
        """Opens the profile of one worker. Raises NotFoundError."""
        place = replace(self._place, worker=name)
        profile = OpenProfile(self._workspace, place, self._workspace.catalog.find(place).files.url)
        _ = profile.read
        return profile


class Comparison:
    """The changes from one profile to another. Times are per step."""

    def __init__(self, base: OpenProfile, other: OpenProfile) -> None:
        sides = {"baseline": base, "experiment": other}
        catalog = open_catalog([(name, _logdir(side._workspace)) for name, side in sides.items()])
        workspace = Workspace(catalog, InlineWorkers(), open_store())
        catalog.scan()
        first, second = (
            _entry_of(catalog, root, side) for root, side in zip(catalog.roots, sides.values(), strict=True)
        )
        captures = {"base_capture": base._place.capture, "exp_capture": other._place.capture}
        for capture in captures.values():
            workspace.captures.allow(capture, _scanned)
        self._pair = Pair(workspace, first, second, pair_view(first, second), **captures)
        self._title = " → ".join(f"{side.url} ({side.worker}, span {side.span})" for side in sides.values())

    def __repr__(self) -> str:
        return f"<comparison {self._title}>"

    def _repr_html_(self) -> str:
        tables = [name for name, payload in self._view.payloads.items() if isinstance(payload, Table)]
        return view_html(self._title, self._view, [each for each in tables if each in _COMPARED] or tables[:1])

    @property
    def findings(self) -> Findings:
        """Returns what changed, most important first."""
        return Findings(findings(self._view.payloads.values(), answers=True))

    def table(self, name: str) -> pd.DataFrame:
        """Returns a table of the comparison, such as ``operators`` or ``kernels``. Raises NotFoundError, MissingPackage."""
        return _frame_of(self._pair.arrow(name))

    @cached_property
    def _view(self) -> View:
        return self._pair.view(_SHOWN_ROWS)


def _logdir(workspace: Workspace) -> str:
    return workspace.catalog.roots[0].folder.url


def _entry_of(catalog: ProfileCatalog, root: Root, profile: OpenProfile) -> Entry:
    """Returns the entry of an open profile in another catalog of its log directory."""
    for entry in catalog.entries():
        same = (entry.files.url, entry.files.worker, entry.files.span) == (profile.url, profile.worker, profile.span)
        if entry.files.root is root and same:
            return entry.at(profile._place.window)
    raise NotFoundError("The file was deleted or moved.", profile.url, "Open the profile again.")


def _page(workspace: Workspace, place: Place, view: str, height: int, proxy: str) -> Page:
    from tb_plugin.notebook.page import page_of  # brings the web server

    state = {"view": view, "run": place.run, "worker": place.worker, "span": place.span, "window": place.window}
    named = {key: value for key, value in state.items() if value}
    return page_of(_logdir(workspace), named, height, proxy)


def _sql(workspace: Workspace, places: list[Place], query: str) -> pa.Table:
    answer = sql_over(workspace.models, sql_profiles([workspace.load(place) for place in places]), query)
    if answer.is_cut:
        raise BadRequest("The query returns too many rows.", "query", "Select fewer rows, or group them.")
    return answer.table


def _table_of(workspace: Workspace, place: Place, view: str, asked: Params, steps: str) -> pd.DataFrame:
    return _frame_of(workspace.arrow(place, view, asked, steps))


def _frame_of(stream: bytes) -> pd.DataFrame:
    _need_pandas()
    import pyarrow as pa

    data = pa.ipc.open_stream(stream).read_all()
    frame: pd.DataFrame = data.to_pandas()
    for field in data.schema:
        if pa.types.is_dictionary(field.type):
            frame[field.name] = [FLAGS.get(str(value), value) for value in frame[field.name]]
    return frame


def _need_pandas() -> None:
    try:
        import pandas  # noqa: F401 (only to see whether it is there)
    except ModuleNotFoundError as error:
        raise MissingPackage("A DataFrame needs pandas.", "", "pip install 'torch-trace-tb[pandas]'") from error
