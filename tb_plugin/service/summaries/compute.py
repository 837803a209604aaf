"""Computation of a rank summary, the same everywhere.

It writes the summary to the target directory, or returns it.
"""

from __future__ import annotations

import gc
import hashlib
import logging
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from msgspec.structs import replace

from tb_plugin import registry
from tb_plugin.analysis.base import Analysis, Params, Part
from tb_plugin.errors import StorageError, TorchTraceError, UserError
from tb_plugin.formats.base import JobInfo, Reader, ReadOptions, no_progress
from tb_plugin.formats.format_entry import as_identifying_reader
from tb_plugin.lib.isolation import isolated
from tb_plugin.lib.model_cache import MEMO
from tb_plugin.lib.temp_dirs import PrivateFolder
from tb_plugin.model.trace.kernel_rules import RuleFile
from tb_plugin.model.trace.merged_ranks import rank_traces
from tb_plugin.model.trace.table import RawTrace
from tb_plugin.service.file_head import read_head
from tb_plugin.service.profile_files import ProfileFiles
from tb_plugin.service.summaries import VIEW, format
from tb_plugin.service.summaries.format import MOST_BYTES, Settings, SummaryHeader, SummaryRefused, Wanted
from tb_plugin.service.workers.memory_budget import (
    MEMORY_VARIABLE,
    budget_bytes,
    local_file_sizes,
    peak_memory_bytes,
    unseen_sizes,
)
from tb_plugin.service.workers.model_cache import OpenModels
from tb_plugin.service.workers.parse import missing_of, read_info
from tb_plugin.service.workers.pool import Pool
from tb_plugin.service.workers.question import Job, Report
from tb_plugin.service.workers.user_rules import class_rules, own_steps, with_own_steps
from tb_plugin.storage.files import FileSource, Folder
from tb_plugin.storage.listing import StoredFile
from tb_plugin.storage.safe_open import Located

log = logging.getLogger("torch_trace")

# The memory estimate covers a single read per process. Remote copies may continue meanwhile.
_ONE_AT_A_TIME = threading.Lock()
_LARGE_BYTES = 10_000_000
# Maximum number of queued jobs per worker.
_QUEUED_PER_WORKER = 2


@dataclass(frozen=True)
class RankJob:
    name: str
    """RUN/WORKER/SPAN."""
    folder: str = field(repr=False)
    """Value of ``Folder.address`` for the log directory. It may contain credentials."""
    reader: str
    files: tuple[StoredFile, ...]
    to: str | None = field(default=None, repr=False)
    """Target directory; None = return the summary to the caller."""
    cached: StoredFile | None = None
    """Existing summary in the target directory, if it is not older than the trace."""
    steps: str = ""
    classes: RuleFile = RuleFile()
    code: str = ""
    """``code_digest`` that the worker must have; "" = any."""

    @property
    def settings(self) -> Settings:
        rules = hashlib.blake2b(self.classes.text.encode(), digest_size=8).hexdigest() if self.classes.text else ""
        return Settings(self.steps, rules)


Kind = Literal["written", "current", "failed"]


@dataclass(frozen=True)
class Outcome:
    name: str
    kind: Kind
    size_bytes: int = 0
    reason: str = ""
    body: bytes = field(default=b"", repr=False)
    """The summary, if it is returned instead of written to a file."""
    is_complete: bool = True
    """False if a file of the trace is damaged or truncated. The summary then covers only the readable part."""
    again: bool = False
    """True if a retry may succeed, because a storage was unreachable."""


@dataclass(frozen=True)
class Summarize:
    job: RankJob

    def answer(self, models: OpenModels, report: Report) -> Outcome:
        """Returns the outcome. Never raises: an error is part of the outcome."""
        return summarize_rank(self.job)


def job_of(found: ProfileFiles, to: str | None, kept: StoredFile | None) -> RankJob:
    """Returns the job for a profile. The job uses the user settings of this process."""
    name = f"{found.run}/{found.worker}/{found.span}"
    address = found.root.folder.address
    return RankJob(name, address, found.reader.id, found.files, to, kept, own_steps(), class_rules())


def current_settings() -> Settings:
    return RankJob("", "", "", (), steps=own_steps(), classes=class_rules()).settings


def in_this_process(jobs: Iterable[RankJob]) -> Iterator[Outcome]:
    return map(summarize_rank, jobs)


def in_pool(jobs: Iterable[RankJob], workers: int) -> Iterator[Outcome]:
    """Runs jobs in local worker processes, again if one dies, and yields outcomes as they finish."""
    coming = iter(jobs)
    with closing(Pool(workers, heavy=workers)) as pool:
        running: dict[Future[Outcome], Job[Outcome]] = {}
        while True:
            for job in islice(coming, _QUEUED_PER_WORKER * workers - len(running)):
                sizes = unseen_sizes({file.path: file.size for file in job.files})
                need = min(peak_memory_bytes(registry.reader_by_id(job.reader), sizes), pool.budget)
                asked = pool.submit(Summarize(job), key=job.name, heavy=True, peak_memory_bytes=need, label=job.name)
                running[asked.future] = asked
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                yield _outcome(running.pop(future), future)


def _outcome(asked: Job[Outcome], future: Future[Outcome]) -> Outcome:
    error = future.exception()
    if error is None:
        return future.result()
    text = " ".join(filter(None, (error.what, error.do))) if isinstance(error, UserError) else str(error)
    return Outcome(asked.key, "failed", reason=text)


@cache
def code_digest() -> str:
    package = Path(__file__).parents[2]
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted([*package.rglob("*.py"), *package.rglob("*.txt")]):
        digest.update(f"{path.relative_to(package).as_posix()}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def summarize_rank(job: RankJob, limit_bytes: int | None = None) -> Outcome:
    """Computes the summary of a rank unless it is up to date. Never raises: errors are outcomes."""
    if job.code and job.code != code_digest():
        reason = (
            "The worker has another version of torch-trace-tb. Install the same version on all workers and "
            "on this machine."
        )
        return Outcome(job.name, "failed", reason=reason)
    try:
        if (current := _current(job)) is not None:
            return current
        body, is_complete = _summary(job, limit_bytes)
        if job.to is None:
            return Outcome(job.name, "written", len(body), body=body, is_complete=is_complete)
        Folder(job.to).write(format.place_of(job.files[0].path), body)
        return Outcome(job.name, "written", len(body), is_complete=is_complete)
    except StorageError as error:
        return Outcome(job.name, "failed", reason=str(error), again=True)
    except TorchTraceError as error:
        return Outcome(job.name, "failed", reason=str(error))
    except Exception as error:  # top level of an engine: a failed rank must not stop the others
        log.exception("Summarizing %s failed.", job.name)
        return Outcome(
            job.name, "failed", reason=f"An internal error happened: {type(error).__name__}. Please report it."
        )
    finally:
        if sum(file.size for file in job.files) > _LARGE_BYTES:
            gc.collect()  # frees memory before the next trace


def _current(job: RankJob) -> Outcome | None:
    if job.cached is None or job.to is None or job.cached.size > MOST_BYTES:
        return None
    try:
        with Folder(job.to).open(job.cached) as stream:
            content = stream.read(MOST_BYTES + 1)
        about = format.read_header(content)
        format.check_header(about, Wanted.of(job.files, job.settings))
    except (SummaryRefused, StorageError, OSError):
        return None
    return Outcome(job.name, "current", len(content), is_complete=about.read.complete)


def _summary(job: RankJob, limit_bytes: int | None) -> tuple[bytes, bool]:
    reader = registry.reader_by_id(job.reader)
    folder = Folder(job.folder)
    with _local(folder, job.files) as paths, _ONE_AT_A_TIME:
        need, budget = peak_memory_bytes(reader, local_file_sizes(paths)), budget_bytes(limit_bytes)
        if need > budget:
            what = f"Reading the trace needs about {need / 1e6:,.0f} MB of memory; {budget / 1e6:,.0f} MB are allowed."
            do = f"Allow more memory with {MEMORY_VARIABLE}={need / 1e6 + 1:.0f}. A summary needs the whole trace."
            raise UserError(what, folder.locate(job.files[0].path), do)
        options = ReadOptions(class_rules=job.classes, own_steps=job.steps)
        raw = reader.read(FileSource(paths), options, no_progress)
        if not isinstance(raw, RawTrace):
            raise UserError(
                "The file is not a trace.", folder.locate(job.files[0].path), "Only traces have rank summaries."
            )
        if ranks := rank_traces(raw):
            what = f"The file contains traces of {len(ranks)} ranks, but a summary covers one rank."
            raise UserError(what, folder.locate(job.files[0].path), "Summarize the original traces of the ranks.")
        model = registry.model_of(reader)
        made = model.assemble(with_own_steps(raw, job.steps))
        del raw
        from tb_plugin.views.distributed.rank.profile import schema_hash

        try:
            part = part_with_borrowed(registry.analysis_by_id(VIEW), made)
            outline = model.outline(made)
            about = SummaryHeader(
                schema_hash(),
                [format.portable_name(file) for file in job.files],
                job.settings,
                0,
                list(outline.steps),
                read_info(outline.report),
                _job_info(reader, folder, job.files),
            )
            return format.dump(part, about), about.read.complete
        except SummaryRefused as error:
            where = folder.locate(job.files[0].path)
            raise UserError(f"The summary of the trace {error}.", where, "Record or annotate fewer steps.") from error
        finally:
            MEMO.forget(made)


def part_with_borrowed(
    analysis: Analysis[Any], made: Any, part_of: Callable[[Analysis[Any]], Part] | None = None
) -> Part:
    """Returns the result of a view with all that it takes from others (``part_of``). Raises UserError."""
    part_of = part_of or (lambda view: isolated(view.title, lambda: view.part(made, Params())))
    part = part_of(analysis)
    for view_id, names in analysis.borrows.items():
        other = registry.analysis_by_id(view_id)
        if missing_of(other, made) is None:
            lent = part_of(other)
            frames = {name: lent.frames[name] for name in names if name in lent.frames}
            payloads = {name: lent.payloads[name] for name in names if name in lent.payloads}
            part = replace(part, frames={**part.frames, **frames}, payloads={**part.payloads, **payloads})
    return part


def _job_info(reader: Reader[Any], folder: Folder, files: Sequence[StoredFile]) -> JobInfo | None:
    asked = as_identifying_reader(reader)
    if asked is None:
        return None
    by_name = {file.path: file for file in files}
    try:
        return asked.identify([file.path for file in files], lambda name: read_head(folder, by_name[name]))
    except zlib.error:
        return None


@contextmanager
def _local(folder: Folder, files: Sequence[StoredFile]) -> Iterator[Mapping[str, Located]]:
    if folder.is_local:
        yield {file.path: folder.located(file) for file in files}
        return
    with PrivateFolder() as copies:
        paths = {}
        for number, file in enumerate(files):
            target = copies / f"{number}{''.join(Path(file.path).suffixes[-2:])}"
            folder.copy(file, target)
            paths[file.path] = Located(str(target))
        yield paths
