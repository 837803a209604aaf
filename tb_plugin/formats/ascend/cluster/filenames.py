"""Folders with a job analysis, recognised by file names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import PurePosixPath

from tb_plugin.formats.base import Candidate, ListedFile

READER_ID = "ascend_cluster"
OUTPUT = "cluster_analysis_output"  # default name of such a folder, beside the profiles
WORKER = "cluster"

STEPS, COMMUNICATION = "cluster_step_trace_time.csv", "cluster_communication.json"
MATRIX, GROUPS = "cluster_communication_matrix.json", "communication_group.json"
DATABASE = "cluster_analysis.db"
KNOWN = (STEPS, COMMUNICATION, MATRIX, GROUPS, DATABASE)  # the first existing one is the main file


def candidates(listing: Sequence[ListedFile]) -> list[Candidate]:
    """Returns the analyses among the listed files: folders with a known file, whatever their name."""
    folders: dict[PurePosixPath, list[PurePosixPath]] = defaultdict(list)
    for file in listing:
        path = PurePosixPath(file.path)
        if path.name in KNOWN:
            folders[path.parent].append(path)
    return [_candidate(folder, files) for folder, files in folders.items()]


def kind_of(name: str) -> str:
    """Returns which known file a name is, "" for none."""
    last = PurePosixPath(name).name
    return last if last in KNOWN else ""


def _candidate(folder: PurePosixPath, files: list[PurePosixPath]) -> Candidate:
    """Returns a candidate; a folder with the default name belongs to the run around it, others are runs of their own."""
    run = folder.parent if folder.name == OUTPUT else folder
    names = sorted(map(str, files), key=lambda name: KNOWN.index(kind_of(name)))
    return Candidate(
        READER_ID, "" if str(run) == "." else str(run), WORKER, None, tuple(names), certain=True, root=str(folder)
    )
