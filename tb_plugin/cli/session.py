"""Selection and loading of profiles for all commands."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from tb_plugin import registry
from tb_plugin.analysis.failure_notices import FAILED
from tb_plugin.cli.terminal import print_error
from tb_plugin.errors import NotFoundError, PartFailed, TorchTraceError, UserError
from tb_plugin.findings import Finding, data_notices
from tb_plugin.format import printable
from tb_plugin.model.trace.window import parse_window
from tb_plugin.payloads import CaptureInfo
from tb_plugin.service.catalog import Place, ProfileCatalog
from tb_plugin.service.loader import merged_ranks
from tb_plugin.service.states import Entry
from tb_plugin.service.workers.pool import InlineWorkers, Pool, Workers, default_size
from tb_plugin.service.workspace import Workspace, open_catalog
from tb_plugin.storage.cache import open_store

if TYPE_CHECKING:
    from rich.progress import Progress


# Maximum number of captures named in one line.
_NAMED = 5


class ProgressBar:
    """A progress bar on stderr. It is hidden if stderr is not a terminal."""

    def __init__(self) -> None:
        self._progress: Progress | None = None

    @contextmanager
    def display(self, title: str) -> Iterator[None]:
        """Shows the bar during a ``with`` block."""
        if not sys.stderr.isatty():
            yield
            return
        from rich.console import Console
        from rich.markup import escape
        from rich.progress import Progress

        with Progress(console=Console(stderr=True), transient=True) as self._progress:
            self._progress.add_task(escape(printable(title)), total=1.0)
            try:
                yield
            finally:
                self._progress = None

    @property
    def is_visible(self) -> bool:
        """Returns whether the bar is visible at present."""
        return self._progress is not None

    def update(self, fraction: float) -> None:
        """Sets the progress to ``fraction``, 0..1."""
        if self._progress is not None and self._progress.tasks:
            self._progress.update(self._progress.tasks[0].id, completed=fraction)

    def tell(self, text: str) -> None:
        """Prints one line to stderr, above the bar."""
        if self._progress is None:
            print_error(text)
            return
        from rich.markup import escape

        self._progress.console.print(escape(printable(text)), highlight=False, soft_wrap=True)


progress_bar = ProgressBar()


def open_workspace(
    arguments: argparse.Namespace, window: str = ""
) -> tuple[Workspace, list[Entry], list[dict[str, str]]]:
    """Scans the path once. Returns the workspace, the selected profiles, and the profiles that failed.

    ``window`` selects a window of each profile. Raises UserError.
    """
    parse_window(window)
    catalog = scan_path(arguments.path)
    entries = catalog.entries()
    failed = []
    wanted = Place(arguments.run, arguments.worker, arguments.span)
    store = open_store()
    catalog.ranks = partial(merged_ranks, store)
    catalog.split_merged_files()
    if len(catalog.entries()) == 1 and not window:
        workspace = Workspace(catalog, workers_for(1), store)
        read_first(workspace, catalog.entries())
    else:
        workspace = Workspace(catalog, workers_for(len(catalog.matching(wanted)) if entries else 0), store)
    if not entries:
        failed = [{"path": path, "reason": reason} for path, reason in catalog.skipped()]
    else:
        entries = [entry.at(window) for entry in catalog.matching(wanted)]
    workspace.captures.allow(arguments.capture, scan_path)
    return workspace, entries, failed


def no_profiles_message() -> str:
    """Returns the message for a path that contains no profile."""
    *most, last = dict.fromkeys(ending for reader in registry.readers() for ending in reader.endings)
    return f"No profiler trace was found. Supported names end in {', '.join(most)} or {last}."


def scan_path(path: str) -> ProfileCatalog:
    """Scans a path and returns its catalog. Raises UserError."""
    if (readable := os.fsencode(path).decode("utf-8", "replace")) != path:
        raise NotFoundError("The path is not valid UTF-8.", readable, "Rename the file or folder.")
    catalog = open_catalog([("", path)])
    catalog.scan()
    for problem in catalog.problems():
        raise problem
    return catalog


def workers_for(profiles: int) -> Workers:
    """Returns the workers for a number of profiles. A single profile is processed in this process."""
    if profiles < 2:
        return InlineWorkers(lambda progress: progress_bar.update(progress.fraction))
    size = min(default_size(), profiles)
    return Pool(size, heavy=size)


def read_first(workspace: Workspace, entries: Sequence[Entry]) -> None:
    """Loads profiles before one of them is selected, because the ranks of a merged file are unknown until then.

    Errors are reported later, when a profile is requested.
    """
    for entry in entries:
        workspace.profile(place_of(entry))
    for entry in entries:
        with suppress(TorchTraceError), progress_bar.display(entry.files.names[0]):
            workspace.load(place_of(entry), progress_bar.update)


def load_all(
    workspace: Workspace, entries: list[Entry], failed: list[dict[str, str]], errors: list[UserError]
) -> Iterator[Entry]:
    """Loads profiles in parallel and yields them in order. Adds errors to ``failed`` and ``errors``.

    Replaces each merged file in ``entries`` by its ranks.
    """
    if len(entries) > 1:
        for entry in entries:
            workspace.profile(place_of(entry))
    every = list(entries)
    for number, entry in enumerate(every, 1):
        try:
            with progress_bar.display(f"[{number}/{len(every)}] {entry.files.names[0]}"):
                loaded = workspace.load(place_of(entry), progress_bar.update)
        except TorchTraceError as error:
            keep_failure(entry, error, failed, errors)
            continue
        if loaded.files.rank == entry.files.rank:
            yield loaded
            continue
        ranks = [each.at(entry.window) for each in workspace.catalog.matching(place_of(entry))]
        place = entries.index(entry)
        entries[place : place + 1] = ranks
        yield from load_all(workspace, ranks, failed, errors)


def keep_failure(entry: Entry, error: TorchTraceError, failed: list[dict[str, str]], errors: list[UserError]) -> None:
    """Adds a failed profile and its error to ``failed`` and ``errors``."""
    reason = f"{error.what} {error.do}".rstrip() if isinstance(error, UserError) else str(error)
    _keep(entry.files.url, reason, error, failed, errors)


def keep_failed_parts(path: str, notices: Sequence[Finding], failed: list[dict[str, str]]) -> None:
    """Adds the failed parts of a profile to ``failed``. The data notices of the profile name these parts."""
    failed += ({"path": path, "reason": f"{each.text} {each.todo}"} for each in notices if each.rule == FAILED)


def keep_failure_of_group(
    title: str, place: Place, error: TorchTraceError, failed: list[dict[str, str]], errors: list[UserError]
) -> None:
    """Adds a failed view of all workers and its error to ``failed`` and ``errors``."""
    reason = str(error) if isinstance(error, PartFailed) else f"{title}: {error}"
    _keep(f"{place.run} / all workers / span {place.span}", reason, error, failed, errors)


def _keep(
    path: str, reason: str, error: TorchTraceError, failed: list[dict[str, str]], errors: list[UserError]
) -> None:
    failed.append({"path": path, "reason": reason})
    if isinstance(error, UserError):
        errors.append(error)


def place_of(entry: Entry, capture: str = "") -> Place:
    """Returns the request parameters that select a profile and its captures."""
    return Place(*entry.key, entry.window, capture)


def capture_lines(info: CaptureInfo | None, option: str = "--capture") -> list[str]:
    """Returns lines about the captures of a loaded profile.

    Empty if the profile has no captures or replays no graph.
    """
    if info is None:
        return []
    lines = []
    if info.own:
        lines.append("capture: in this trace")
    if info.names:
        lines.append(f"capture: {_few(info.names)}{' (in the folder of the trace)' if info.how == 'beside' else ''}")
    elif info.how != "named" and info.beside:
        lines.append(f"capture: none; possible captures in the folder of the trace, for {option}: {_few(info.beside)}")
    if info.problem is not None:
        lines.append(f"capture not used: {UserError(info.problem.what, info.problem.where, info.problem.do)}")
    return lines


def capture_message(workspace: Workspace, place: Place, option: str = "--capture") -> list[str]:
    """Returns lines about the captures of a profile, and the reason why they do not cover all graphs."""
    info = workspace.profile(place, start=False).capture
    lines = capture_lines(info, option)
    if info is not None and info.names:
        notices = data_notices(workspace.numbers(place, []).notices)
        lines += [f"capture: {notice.text}" for notice in notices if notice.rule.startswith("capture_")]
    return lines


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (f", ... ({len(names)})" if len(names) > _NAMED else "")
