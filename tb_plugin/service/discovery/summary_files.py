"""Rank summaries in log directories, with or without a trace."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from tb_plugin import settings
from tb_plugin.errors import StorageError, UserError
from tb_plugin.formats.base import Candidate, JobInfo, ListedFile, Reader
from tb_plugin.model.trace.table import RawTrace
from tb_plugin.service.profile_files import ProfileFiles, SummaryFile
from tb_plugin.storage.files import Folder
from tb_plugin.storage.listing import StoredFile

# Suffix after the name of the main file of the trace.
SUFFIX = ".ttsummary"
# A folder or URL with summaries, with the same subfolders as the traces.
SUMMARIES_VARIABLE = settings.SUMMARIES.name
NOTHING_LIKE_IT = "This is a rank summary, but the file name of its trace is not recognized."
_HEAD_BYTES = 1024 * 1024


def is_older(summary: StoredFile, files: Sequence[StoredFile]) -> bool:
    """Returns whether the summary is older than a file of its profile, by modification time."""
    return summary.modified_ns is not None and any(
        file.modified_ns is not None and file.modified_ns > summary.modified_ns for file in files
    )


class ListedSummaries:
    """Rank summaries next to traces, and those in the directory TORCH_TRACE_SUMMARIES."""

    def __init__(self) -> None:
        self.problem: UserError | None = None
        """The error if the directory TORCH_TRACE_SUMMARIES could not be listed."""
        self._tree: dict[str, SummaryFile] = {}
        url = os.environ.get(SUMMARIES_VARIABLE, "").strip()
        self._folder = Folder(url) if url else None

    def list(self) -> bool:
        """Lists the directory TORCH_TRACE_SUMMARIES, if it is set. Returns whether anything changed."""
        if self._folder is None:
            return False
        before = (self._tree, self.problem and str(self.problem))
        try:
            files = self._folder.list().files
            self._tree = {
                file.path.removesuffix(SUFFIX): SummaryFile(self._folder, file)
                for file in files
                if file.path.endswith(SUFFIX)
            }
            self.problem = None
        except UserError as error:
            self.problem = error
        return before != (self._tree, self.problem and str(self.problem))

    def with_summary(self, found: ProfileFiles, beside: Mapping[str, StoredFile]) -> ProfileFiles:
        """Adds up-to-date summaries to a profile. A summary next to the trace comes first."""
        main = found.files[0]
        if not found.is_present:
            return replace(found, summaries=(SummaryFile(found.root.folder, main),))
        here = beside.get(main.path)
        listed = [SummaryFile(found.root.folder, here)] if here is not None else []
        listed += [self._tree[main.path]] if main.path in self._tree else []
        return replace(found, summaries=tuple(each for each in listed if not is_older(each.file, found.files)))


def candidates_without_trace(
    readers: Sequence[Reader[Any]], summaries: Mapping[str, StoredFile]
) -> list[tuple[Reader[Any], Candidate]]:
    """Returns a candidate for each missing trace that has a summary. Run, worker and span come from the file name."""
    names = tuple(ListedFile(main, 1, file.fingerprint) for main, file in summaries.items())
    found = [
        (reader, candidate)
        for reader in readers
        if names and reader.raw is RawTrace
        for candidate in reader.find(names)
        if candidate.names[0] in summaries
    ]
    # A name with only a matching extension is assigned to the first reader that accepts it.
    found.sort(key=lambda item: item[1].certain, reverse=True)
    return [(reader, replace(each, names=each.names[:1], also=(), certain=True)) for reader, each in found]


def reported_job(found: ProfileFiles) -> JobInfo | UserError | None:
    if not found.summaries:
        return None
    summary = found.summaries[0]
    try:
        head = summary.folder.head(summary.file, _HEAD_BYTES) if summary.file.size else b""
    except StorageError as error:
        return error
    try:
        return msgspec.json.decode(head.split(b"\n", 3)[2], type=_Job).job
    except (ValueError, IndexError, RecursionError):
        return None


class _Job(msgspec.Struct):
    job: JobInfo | None = None
