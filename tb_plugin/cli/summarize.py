"""``torch-trace summarize``: rank summaries, computed locally or on Dask."""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

import msgspec

from tb_plugin.analysis.base import Params
from tb_plugin.analysis.phrases import count_with_noun
from tb_plugin.cli.exit_codes import NOTHING, OK
from tb_plugin.cli.session import progress_bar, scan_path
from tb_plugin.cli.terminal import print_error, print_line
from tb_plugin.errors import BadRequest, NotFoundError, TorchTraceError
from tb_plugin.findings import findings
from tb_plugin.format import format_value
from tb_plugin.model.trace.table import RawTrace
from tb_plugin.payloads import View
from tb_plugin.service.catalog import Place
from tb_plugin.service.discovery.summary_files import SUFFIX, is_older
from tb_plugin.service.profile_files import ProfileFiles
from tb_plugin.service.summaries import VIEW, dask_cluster
from tb_plugin.service.summaries.compute import Outcome, RankJob, in_pool, in_this_process, job_of
from tb_plugin.service.summaries.dask_cluster import Scheduler
from tb_plugin.service.summaries.format import place_of
from tb_plugin.service.workers.pool import InlineWorkers, default_size
from tb_plugin.service.workspace import Workspace
from tb_plugin.storage.cache import open_store
from tb_plugin.storage.files import Folder
from tb_plugin.storage.listing import StoredFile

# Seconds between progress lines if there is no progress bar, for instance in a log.
LINE_SECONDS = 10.0


def summarize(arguments: argparse.Namespace) -> int:
    """Summarises the selected ranks and returns the exit code. Raises UserError."""
    scheduler = _scheduler(arguments)
    found = _chosen(arguments)
    jobs = _jobs(found, arguments.to)
    outcomes: Counter[str] = Counter()
    size_bytes = incomplete = 0
    told = time.monotonic()
    with progress_bar.display(f"{count_with_noun(len(jobs), 'rank')} of {arguments.path}"):
        for outcome in _computed(jobs, scheduler, arguments.workers):
            outcomes[outcome.kind] += 1
            size_bytes += outcome.size_bytes
            progress_bar.update(outcomes.total() / len(jobs))
            if outcome.kind == "failed":
                progress_bar.tell(f"{outcome.name}: {outcome.reason}")
            if not outcome.is_complete:
                incomplete += 1
                progress_bar.tell(
                    f"{outcome.name}: Incomplete: the file is damaged or truncated. The summary covers "
                    "the part that was read."
                )
            if not progress_bar.is_visible and time.monotonic() - told >= LINE_SECONDS:
                told = time.monotonic()
                print_error(
                    f"{outcomes.total():,} of {count_with_noun(len(jobs), 'rank')}, {outcomes['failed']:,} failed"
                )
    where = arguments.to or "next to their traces"
    print_line(
        f"{count_with_noun(len(jobs), 'rank')}: {outcomes['written']:,} computed, {outcomes['current']:,} up to date, "
        f"{outcomes['failed']:,} failed{f', {incomplete:,} incomplete' if incomplete else ''}; "
        f"{format_value(size_bytes, 'bytes')} {where}."
    )
    if outcomes["written"] + outcomes["current"] > 1:
        try:
            _join(arguments.to or arguments.path, {place_of(job.files[0].path) for job in jobs})
        except TorchTraceError as error:  # the summaries exist regardless
            print_error(f"The ranks are not merged yet; TensorBoard will merge them. {error}")
    return NOTHING if outcomes["failed"] else OK


def _join(path: str, summaries: AbstractSet[str]) -> None:
    """Merges the ranks of each run into the cache, for TensorBoard on this machine. Prints the findings.

    A run is identified by its paths in ``summaries``, because its name may differ from that of the traces. A run is
    skipped if a trace would have to be read. Raises TorchTraceError.
    """
    store = open_store()
    if store.is_private:  # it is deleted when this process ends
        return
    workspace = Workspace(scan_path(path), InlineWorkers(), store)
    try:
        ranks: dict[Place, list[str | None]] = {}
        for entry in workspace.catalog.entries():
            found = entry.files
            if found.reader.raw is RawTrace:
                summary = found.summaries[0].file.path if found.summaries else None
                ranks.setdefault(Place(found.run, None, found.span), []).append(summary)
        places = [
            place
            for place, listed in ranks.items()
            if len(listed) > 1 and None not in listed and not summaries.isdisjoint(listed)
        ]
        with progress_bar.display(f"Merging the ranks of {count_with_noun(len(places), 'run')}"):
            for done, place in enumerate(places, 1):
                view = msgspec.json.decode(workspace.group(place, VIEW, Params()), type=View)
                for finding in findings(view.payloads.values()):
                    if finding.severity != "info":
                        print_line(f"{place.run}: {finding.text}")
                progress_bar.update(done / len(places))
    finally:
        workspace.close()


def _scheduler(arguments: argparse.Namespace) -> Scheduler | None:
    files = tuple(
        given or os.environ.get(name, "").strip()
        for given, name in (
            (arguments.tls_ca_file, dask_cluster.CA_VARIABLE),
            (arguments.tls_cert, dask_cluster.CERT_VARIABLE),
            (arguments.tls_key, dask_cluster.KEY_VARIABLE),
        )
    )
    if arguments.scheduler and arguments.workers is not None:
        raise BadRequest("A Dask scheduler has its own workers.", "--workers", "Use either --scheduler or --workers.")
    default = os.environ.get(dask_cluster.SCHEDULER_VARIABLE, "").strip() if arguments.workers is None else ""
    address = arguments.scheduler or default
    return Scheduler(address, *files) if address else None


def _chosen(arguments: argparse.Namespace) -> list[ProfileFiles]:
    catalog = scan_path(arguments.path)
    entries = catalog.matching(Place(arguments.run, arguments.worker, arguments.span))
    found = [entry.files for entry in entries if entry.files.reader.raw is RawTrace and entry.files.is_present]
    if not found:
        reasons = [reason for _, reason in catalog.skipped()]
        raise NotFoundError("No trace was found.", arguments.path, " ".join(reasons[:1]) or "Check the path.")
    return found


def _jobs(found: Sequence[ProfileFiles], to: str) -> list[RankJob]:
    listed = _summaries(to) if to else None
    address = Folder(to).address if to else ""
    jobs = []
    for one in found:
        main = one.files[0].path
        if listed is None:
            folder = one.root.folder
            kept = next((each.file for each in one.summaries if each.folder is folder), None)
            jobs.append(job_of(one, folder.address, kept))
        else:
            kept = listed.get(main)
            jobs.append(job_of(one, address, None if kept is None or is_older(kept, one.files) else kept))
    return jobs


def _summaries(to: str) -> dict[str, StoredFile]:
    """Returns the existing summaries, by the main file of each trace. Raises StorageError."""
    try:
        files = Folder(to).list().files
    except NotFoundError:  # the directory is created later
        return {}
    return {file.path.removesuffix(SUFFIX): file for file in files if file.path.endswith(SUFFIX)}


def _computed(jobs: Sequence[RankJob], scheduler: Scheduler | None, workers: int | None) -> Iterator[Outcome]:
    if scheduler is not None:
        return dask_cluster.compute_jobs(jobs, scheduler)
    size = min(default_size() if workers is None else workers, len(jobs))
    return in_this_process(jobs) if size < 2 else in_pool(jobs, size)
