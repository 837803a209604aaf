"""Recognition of profile folders; rank, process and time in file names."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import PurePosixPath

from msgspec.structs import replace

from tb_plugin.formats.base import Candidate, ListedFile

READER_ID = "ascend"
OUTPUT = "ASCEND_PROFILER_OUTPUT"  # folder of parsed files in a profile

TRACE, KERNELS, OPERATORS = "trace_view.json", "kernel_details.csv", "operator_details.csv"
MEMORY, BLOCKS, MODULES = "memory_record.csv", "operator_memory.csv", "npu_module_mem.csv"
STEPS, COMMUNICATION, MATRIX = "step_trace_time.csv", "communication.json", "communication_matrix.json"
# vendor tables that are shown unchanged
VENDOR_TABLES = (
    "op_statistic.csv", "api_statistic.csv", "data_preprocess.csv", "l2_cache.csv", "task_time.csv", "static_op_mem.csv",
    "hccs.csv", "nic.csv", "pcie.csv", "roce.csv", "soc_pmu.csv",
)  # fmt: skip
PROFILER_METADATA = "profiler_metadata.json"
ANALYSED = "analysis.db"  # step and communication times from the tool that wrote the database
TABLES = frozenset({KERNELS, OPERATORS, MEMORY, BLOCKS, MODULES, STEPS, *VENDOR_TABLES})
PACKED = ".gz"  # extension of compressed text files; compressed databases are not read
FILENAMES = frozenset(
    {TRACE, KERNELS, OPERATORS, MEMORY, BLOCKS, MODULES, STEPS, COMMUNICATION, MATRIX, *VENDOR_TABLES, ANALYSED}
)
# a profile folder contains one of these; the first one is the main file
_MAIN_FILES = (TRACE, KERNELS, MEMORY, BLOCKS, MODULES, OPERATORS, STEPS, COMMUNICATION)
_PROFILE = re.compile(r"(?s)^(?P<worker>.*?)(?:_(?P<span>[0-9]{8,20}))?_ascend_(?:pt|ms)\Z")
_ARGUMENTS = re.compile(r"_ascend_(?:pt|ms)_op_args\Z")  # folders of dumped operator arguments
_RAW = re.compile(r"(?:PROF_|FRAMEWORK\Z|logs\Z)")  # folders of raw data in a profile
_DATABASE = re.compile(r"ascend_(?:pytorch|mindspore)_profiler(?:_(?P<rank>[0-9]{1,9}))?\.db\Z")
LOG = "-wal"  # extension of a file with changes that SQLite has not yet written into the database
_INFO = re.compile(r"profiler_info(?:_(?P<rank>[0-9]{1,9}))?\.json\Z")


def candidates(listing: Sequence[ListedFile]) -> list[Candidate]:
    """Returns a candidate for each profile folder. Such folders are recognised by the files in them."""
    outputs: dict[PurePosixPath, list[PurePosixPath]] = defaultdict(list)
    info_files: dict[PurePosixPath, list[PurePosixPath]] = defaultdict(list)
    for file in listing:
        path = PurePosixPath(file.path)
        if _is_raw(path):
            continue
        kind = kind_of(path.name)
        if kind in ("info", PROFILER_METADATA):
            info_files[path.parent].append(path)
        elif kind:
            outputs[path.parent].append(path)
    found = []
    for folder, files in outputs.items():
        candidate = _candidate(folder, files, info_files)
        if candidate is not None:
            found.append(candidate)
    return _with_other_files(found, listing)


def kind_of(name: str) -> str:
    """Returns the kind of a file: a constant above, "db", "info", the name of a write-ahead log, or ""."""
    last = PurePosixPath(name).name
    bare = last.removesuffix(PACKED)
    if last == PROFILER_METADATA or (bare in FILENAMES and (bare == last or bare != ANALYSED)):
        return bare
    whole = last.removesuffix(LOG)
    if whole != last and (whole == ANALYSED or _DATABASE.match(whole)):
        return last
    return "db" if _DATABASE.match(last) else "info" if _INFO.match(last) else ""


def by_kind(names: Sequence[str]) -> dict[str, str]:
    """Returns one file of each kind. Prefers uncompressed files."""
    found: dict[str, str] = {}
    for name in sorted(names, key=lambda name: name.endswith(PACKED)):
        if kind := kind_of(name):
            found.setdefault(kind, name)
    return found


def rank_in(name: str) -> int | None:
    """Returns the rank in a file name, or None."""
    last = PurePosixPath(name).name
    match = _DATABASE.match(last) or _INFO.match(last)
    return int(match["rank"]) if match and match["rank"] else None


def time_of(token: str | None) -> int | None:
    """Parses ``yyyymmddHHMMSS[mmm]`` as UTC. Returns nanoseconds since 1970, or None if ``token`` has another form."""
    if token is None or len(token) < 14:
        return None
    try:
        whole = datetime.strptime(token[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return None
    fraction = token[14:17].ljust(3, "0")
    return (int(whole.timestamp()) * 1000 + int(fraction)) * 1_000_000


def _candidate(
    folder: PurePosixPath, files: list[PurePosixPath], info_files: dict[PurePosixPath, list[PurePosixPath]]
) -> Candidate | None:
    profile = folder.parent if folder.name == OUTPUT else folder
    match = _PROFILE.match(profile.name)
    if match is None and folder.name != OUTPUT and not _is_output(files):
        return None
    kinds = by_kind([str(path) for path in sorted(files)])
    main = next((PurePosixPath(kinds[kind]) for kind in (*_MAIN_FILES, "db", ANALYSED) if kind in kinds), None)
    if main is None:
        return None
    about = [*info_files.get(profile, ()), *(info_files.get(folder, ()) if folder != profile else ())]
    names = [str(main), *sorted(str(path) for path in (*files, *about) if path != main)]
    rank = next((rank for name in names[1:] + names[:1] if (rank := rank_in(name)) is not None), None)
    worker = f"rank{rank}" if rank is not None else match["worker"] if match else profile.name
    span = match["span"] if match else None
    return Candidate(
        READER_ID,
        "" if str(profile.parent) == "." or profile == PurePosixPath(".") else str(profile.parent),
        worker or "npu",
        span,
        tuple(names),
        certain=True,
        root=str(profile),
        time_unix_ns=time_of(span),
    )


def _is_output(files: list[PurePosixPath]) -> bool:
    """Returns True if two known names, of which one is distinctive, show that the folder is a profile."""
    names = {kind_of(path.name) for path in files}
    return bool(names & {KERNELS, OPERATORS, BLOCKS, STEPS}) and len(names & FILENAMES) > 1


def _is_raw(path: PurePosixPath) -> bool:
    """Returns True for a file in a folder of raw data or of dumped operator arguments."""
    folders = path.parts[:-1]
    place = next((at for at, name in enumerate(folders) if _PROFILE.match(name)), len(folders))
    return any(_ARGUMENTS.search(name) for name in folders) or any(_RAW.match(name) for name in folders[place + 1 :])


def _with_other_files(found: list[Candidate], listing: Sequence[ListedFile]) -> list[Candidate]:
    """Adds all other files of each profile folder to its candidate, so that raw data is not read as traces."""
    roots = {candidate.root: place for place, candidate in enumerate(found) if PurePosixPath(candidate.root).name}
    also: dict[int, list[str]] = defaultdict(list)
    for file in listing:
        place = next((roots[str(parent)] for parent in PurePosixPath(file.path).parents if str(parent) in roots), None)
        if place is not None and file.path not in found[place].names:
            also[place].append(file.path)
    return [replace(candidate, also=tuple(also[place])) for place, candidate in enumerate(found)]
