"""Recognition of job analysis folders by file names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import PurePosixPath

from tb_plugin.formats.base import Candidate, ListedFile

READER_ID = "ascend_cluster"
OUTPUT = "cluster_analysis_output"  # default folder name; the folder is next to the profiles
WORKER = "cluster"

STEPS, COMMUNICATION = "cluster_step_trace_time.csv", "cluster_communication.json"
MATRIX, GROUPS = "cluster_communication_matrix.json", "communication_group.json"
DATABASE = "cluster_analysis.db"
FILENAMES = (STEPS, COMMUNICATION, MATRIX, GROUPS, DATABASE)  # the first existing one is the main file


def candidates(listing: Sequence[ListedFile]) -> list[Candidate]:
    """Returns a candidate for each folder that contains a known analysis file, whatever the name of the folder."""
    folders: dict[PurePosixPath, list[PurePosixPath]] = defaultdict(list)
    for file in listing:
        path = PurePosixPath(file.path)
        if path.name in FILENAMES:
            folders[path.parent].append(path)
    return [_candidate(folder, files) for folder, files in folders.items()]


def kind_of(name: str) -> str:
    """Returns the kind of a file: a constant above, "db", "info", the name of a write-ahead log, or ""."""
    last = PurePosixPath(name).name
    return last if last in FILENAMES else ""


def _candidate(folder: PurePosixPath, files: list[PurePosixPath]) -> Candidate:
    """Returns a candidate. A folder with the default name belongs to the run of its parent folder."""
    run = folder.parent if folder.name == OUTPUT else folder
    names = sorted(map(str, files), key=lambda name: FILENAMES.index(kind_of(name)))
    return Candidate(
        READER_ID, "" if str(run) == "." else str(run), WORKER, None, tuple(names), certain=True, root=str(folder)
    )
