"""Selection and loading of profiles for all commands."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import msgspec

from tb_plugin import registry
from tb_plugin.analysis.failure_notices import FAILED
from tb_plugin.cli.columns import elide_texts
from tb_plugin.cli.terminal import print_error, width
from tb_plugin.errors import NotFoundError, PartFailed, TorchTraceError, UserError
from tb_plugin.findings import Finding, data_notices
from tb_plugin.format import printable
from tb_plugin.model.trace.window import parse_window
from tb_plugin.payloads import CaptureInfo
from tb_plugin.service.catalog import Place, ProfileCatalog, place_of
from tb_plugin.service.loader import merged_ranks
from tb_plugin.service.states import Entry
from tb_plugin.service.workers.pool import InlineWorkers, Pool, Workers, default_size
from tb_plugin.service.workspace import Workspace, open_catalog
from tb_plugin.storage.cache import open_store

# Width of the progress bar.
_BAR_CELLS = 40
# Maximum number of captures named in one line.
_NAMED = 5


class ProgressBar:
    """A progress bar on stderr. It is hidden if stderr is not a terminal."""

    def __init__(self) -> None:
        self._title = ""
        self._shown = ""

    @contextmanager
    def display(self, title: str) -> Iterator[None]:
        if not sys.stderr.isatty():
            yield
            return
        self._title = printable(title)
        self.update(0.0)
        try:
            yield
        finally:
            self._draw("")
            self._title = ""

    @property
    def is_visible(self) -> bool:
        return self._title != ""

    def update(self, fraction: float) -> None:
        if self._title:
            filled = round(_BAR_CELLS * min(1.0, fraction))
            bar = "━" * filled + "─" * (_BAR_CELLS - filled)
            self._draw(f"{elide_texts([self._title], max(1, width() - _BAR_CELLS - 7))[0]} {bar} {fraction:4.0%}")

    def tell(self, text: str) -> None:
        """Prints one line to stderr, above the bar."""
        shown = self._shown
        if shown:
            self._draw("")
        print_error(text)
        if shown:
            self._draw(shown)

    def _draw(self, text: str) -> None:
        if text != self._shown:
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
            self._shown = text


progress_bar = ProgressBar()


class Failures(msgspec.Struct):
    listed: list[dict[str, str]] = msgspec.field(default_factory=list)
    errors: list[UserError] = msgspec.field(default_factory=list)

    def add(self, path: str, reason: str, error: TorchTraceError | None = None) -> None:
        self.listed.append({"path": path, "reason": reason})
        if isinstance(error, UserError):
            self.errors.append(error)

    def add_profile(self, entry: Entry, error: TorchTraceError) -> None:
        reason = f"{error.what} {error.do}".rstrip() if isinstance(error, UserError) else str(error)
        self.add(entry.files.url, reason, error)

    def add_parts(self, path: str, notices: Sequence[Finding]) -> None:
        """Adds the failed parts of a profile. The data notices of the profile name these parts."""
        for notice in notices:
            if notice.rule == FAILED:
                self.add(path, f"{notice.text} {notice.todo}")

    def add_group(self, title: str, place: Place, error: TorchTraceError) -> None:
        reason = str(error) if isinstance(error, PartFailed) else f"{title}: {error}"
        self.add(f"{place.run} / all workers / span {place.span}", reason, error)


class Session(msgspec.Struct):
    workspace: Workspace
    entries: list[Entry]
    failures: Failures = msgspec.field(default_factory=Failures)

    def load_all(self) -> Iterator[Entry]:
        """Loads profiles in parallel, yields them in order, and splits merged files. Adds to ``failures``."""
        yield from self._load(self.entries)

    def load_or_complain(self, path: str) -> list[Entry]:
        """Loads all profiles, and prints why others failed, or that there is none."""
        entries = list(self.load_all())
        for failure in self.failures.listed:
            print_error(f"{failure['path']}: {failure['reason']}")
        if not entries and not self.failures.listed:
            print_error(f"{path}: {no_profiles_message()}")
        return entries

    def _load(self, entries: list[Entry]) -> Iterator[Entry]:
        if len(entries) > 1:
            for entry in entries:
                self.workspace.profile(place_of(entry))
        every = list(entries)
        for number, entry in enumerate(every, 1):
            try:
                with progress_bar.display(f"[{number}/{len(every)}] {entry.files.names[0]}"):
                    loaded = self.workspace.load(place_of(entry), progress_bar.update)
            except TorchTraceError as error:
                self.failures.add_profile(entry, error)
                continue
            if loaded.files.rank == entry.files.rank:
                yield loaded
                continue
            ranks = [each.at(entry.window) for each in self.workspace.catalog.matching(place_of(entry))]
            place = entries.index(entry)
            entries[place : place + 1] = ranks
            yield from self._load(ranks)


def open_session(
    path: str,
    wanted: Place = Place(),  # noqa: B008 (frozen)
    capture: str = "",
    without_views: bool = False,
) -> Session:
    """Scans a path once, and selects profiles and their window. ``without_views``: see Workspace. Raises UserError."""
    parse_window(wanted.window)
    catalog, store = scan_path(path), open_store()
    catalog.ranks = partial(merged_ranks, store)
    catalog.split_merged_files()
    found = catalog.entries()
    is_single = len(found) == 1 and not wanted.window
    count = 1 if is_single or not found else len(catalog.matching(wanted))
    workspace = Workspace(catalog, workers_for(count), store, without_views)
    if is_single:
        read_first(workspace, found)
    entries = [entry.at(wanted.window) for entry in catalog.matching(wanted)] if found else []
    workspace.captures.allow(capture, scan_path)
    session = Session(workspace, entries)
    if not found:
        for where, reason in catalog.skipped():
            session.failures.add(where, reason)
    return session


def no_profiles_message() -> str:
    *most, last = dict.fromkeys(ending for reader in registry.readers() for ending in reader.endings)
    return f"No profiler trace was found. Supported names end in {', '.join(most)} or {last}."


def scan_path(path: str, dropped: Path | None = None) -> ProfileCatalog:
    """Scans a path, and a folder of dropped files, and returns their catalog. Raises UserError."""
    if (readable := os.fsencode(path).decode("utf-8", "replace")) != path:
        raise NotFoundError("The path is not valid UTF-8.", readable, "Rename the file or folder.")
    catalog = open_catalog([("", path)], dropped)
    catalog.scan()
    for problem in catalog.problems():
        raise problem
    return catalog


def workers_for(profiles: int) -> Workers:
    if profiles < 2:
        return InlineWorkers(lambda progress: progress_bar.update(progress.fraction))
    size = min(default_size(), profiles)
    return Pool(size, heavy=size)


def read_first(workspace: Workspace, entries: Sequence[Entry]) -> None:
    """Loads profiles, because the ranks of a merged file are unknown before. Errors are reported later."""
    for entry in entries:
        workspace.profile(place_of(entry))
    for entry in entries:
        with suppress(TorchTraceError), progress_bar.display(entry.files.names[0]):
            workspace.load(place_of(entry), progress_bar.update)


def capture_lines(info: CaptureInfo | None, option: str = "--capture") -> list[str]:
    """Returns lines about the captures of a loaded profile that replays graphs."""
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
