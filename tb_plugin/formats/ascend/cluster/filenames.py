"""Which folders hold the analysis of a job, by the names of their files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import PurePosixPath

from tb_plugin.formats.base import Candidate, ListedFile

READER_ID = "ascend_cluster"
OUTPUT = "cluster_analysis_output"
"""What such a folder is called, beside the profiles that it is about."""
WORKER = "cluster"

STEPS, COMMUNICATION = "cluster_step_trace_time.csv", "cluster_communication.json"
MATRIX, GROUPS = "cluster_communication_matrix.json", "communication_group.json"
DATABASE = "cluster_analysis.db"
KNOWN = (STEPS, COMMUNICATION, MATRIX, GROUPS, DATABASE)
"""In the order in which one is the main file."""


def candidates(listing: Sequence[ListedFile]) -> list[Candidate]:
    """Returns the analyses among the listed files: folders that hold one of the known files, whatever they are called."""
    folders: dict[PurePosixPath, list[PurePosixPath]] = defaultdict(list)
    for file in listing:
        path = PurePosixPath(file.path)
        if path.name in KNOWN:
            folders[path.parent].append(path)
    return [_candidate(folder, files) for folder, files in folders.items()]


def kind_of(name: str) -> str:
    """Returns which of the known files one is, by its name; "" for none."""
    last = PurePosixPath(name).name
    return last if last in KNOWN else ""


def _candidate(folder: PurePosixPath, files: list[PurePosixPath]) -> Candidate:
    """It belongs to the run around it where it has its usual name, else it is a run of its own."""
    run = folder.parent if folder.name == OUTPUT else folder
    names = sorted(map(str, files), key=lambda name: KNOWN.index(kind_of(name)))
    return Candidate(
        READER_ID, "" if str(run) == "." else str(run), WORKER, None, tuple(names), certain=True, root=str(folder)
    )
