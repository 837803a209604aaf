"""Files that no reader takes, by what they are: a person who sees one among what was skipped learns why, and what to do.

A reader that comes for one of these formats claims its names (``Candidate.certain``) or takes its line here away.
"""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from tb_plugin.formats._chrome.sniffing import beginning

LOOKED_INTO = re.compile(r"(?i)\.(?:prof|bin|db|sqlite3?)\Z")
"""Names that say little, and of which the first bytes are worth a look. None of a kind that grows while a training runs."""
MAX_LISTED = 3
"""Files (or folders) of one kind that are named one by one; of more, their common folder is, and how many there are."""
_PATHS_KEPT = 1 << 16


@dataclass(frozen=True)
class Foreign:
    """A kind of file that is no profile which can be read."""

    text: str
    """What it is and what to do about it."""
    path: str | None = None
    """Regular expression that is found in the path of such files. A group ``folder`` says that this folder is one thing."""
    head: bytes | None = None
    """Regular expression that is found in their first bytes."""
    is_empty: bool = False
    """Such files hold nothing; others of that path are something else."""
    is_last: bool = False
    """Only what every reader refused is this: some read others that begin so."""
    is_part: bool = False
    """Alone, such a file reads as a profile with half of the truth: its path counts even if a person chose it."""


_ASCEND = (
    "This belongs to an Ascend profile (torch_npu), which is opened as a folder: keep what ASCEND_PROFILER_OUTPUT held "
    "together, under that name. torch_npu.profiler.profiler.analyse(...) makes it of raw PROF folders."
)
_OF_ROCPROF = (
    r"(?:kernel|hip_(?:runtime_|compiler_)?api|hsa_(?:core_|amd_ext_|image_ext_|finalize_ext_)?api|memory_copy|marker_api|rccl_api"
    r"|scratch_memory|memory_allocation|domain)"
)
_ROCPROF_CSV = (
    rf"(?:_(?:{_OF_ROCPROF}|counter_collection|agent_info)(?:_trace|_stats)?|(?:^|/){_OF_ROCPROF}_(?:trace|stats)"
    r"|(?:^|/)results(?:\.\w+)?|\.stats)\.csv\Z|\.rpd\Z"
)
_INDUCTOR = (
    r"(?:^|/)(?:output_code(?:_[^/]*)?\.py|fx_graph_(?:runnable|readable|transformed)[^/]*\.(?:py|txt)"
    r"|ir_(?:pre|post)_fusion[^/]*\.txt)\Z"
)
_WEIGHTS = (
    r"(?i)\.(?:pt|pth|ckpt|safetensors|distcp)\Z"
    r"|(?:^|/)(?:pytorch_model|model|optimizer|diffusion_pytorch_model)[^/]*\.bin\Z"
)
FOREIGN = (
    Foreign(
        "The file is empty: export_stacks writes nothing unless the profiler has with_stack=True and "
        "experimental_config=torch._C._profiler._ExperimentalConfig(verbose=True), and nothing of an unused device.",
        path=r"(?:stacks?[^/]{0,100}|self_[a-z]{1,20}_time_total[^/]{0,20})\.txt$",
        is_empty=True,
    ),
    Foreign(
        "This is a pointer of Git LFS, not the file it stands for: fetch that with git lfs pull.",
        head=rb"\Aversion https://git-lfs\.github\.com/spec/",
    ),
    Foreign(
        "This is a picture of export_memory_timeline, without numbers: export to a name that ends in .raw.json.gz.",
        head=rb"(?i)\A<html>[\s\S]{0,400}?(?:Memory Timeline HTML</title>|<img src=['\"]data:image/png;base64,)",
    ),
    Foreign(
        "This is a page that memray made: it is about memory of the host; memray opens it.",
        head=rb"(?i)\A<(?:!doctype\s+html|html)\b[\s\S]*?<title>[^<]{0,80}memray",
    ),
    Foreign(
        "This is a report of tlparse about torch.compile: a browser opens its index.html; it holds no times of a training.",
        path=r"\A(?P<folder>(?:.*/)?)(?:failures_and_restarts\.html|compile_directory\.json)\Z",
        head=rb"(?i)\A<(?:!doctype\s+html|html)\b[\s\S]*?(?:tlparse|Stack trie|IR dumps)",
    ),
    Foreign(
        "This is a web page, not a trace: a download may have ended at a login or an error.",
        head=rb"(?i)\A<(?:!doctype\s+html|html)\b(?![\s\S]*\"base64\"\s*:)",
    ),
    Foreign(
        _ASCEND,
        path=r"\A(?P<folder>(?:.*/)?[^/]*_ascend_pt/)",
        is_part=True,
        head=rb'"Input (?:Dims|type)"\s*:\s*"[^"\\]{0,400};\\r\\n',
    ),
    Foreign(_ASCEND, path=r"\A(?P<folder>(?:.*/)?ASCEND_PROFILER_OUTPUT/)", is_part=True),
    Foreign(_ASCEND, path=r"(?:^|/)trace_view\.json(?:\.gz)?$", is_part=True),
    Foreign(
        "This is raw data of an Ascend profiler: torch_npu.profiler.profiler.analyse(...) makes a folder of it that is read "
        "here; what msprof --export=on makes is not.",
        path=r"\A(?P<folder>(?:.*/)?PROF_\d+_\d+_[A-Za-z]+/)",
    ),
    Foreign(
        "This is a report of Nsight Systems: Nsight Systems opens it. Record with torch.profiler to see the training here.",
        path=r"(?i)\.(?:nsys-rep|qdrep|qdstrm)\Z",
    ),
    Foreign(
        "This is a database of Nsight Systems (nsys export): Nsight Systems opens the report it comes from. "
        "Record the training with torch.profiler to see it here.",
        head=rb"\ASQLite format 3\0[\s\S]*?(?:CUPTI_ACTIVITY_KIND_|TARGET_INFO_SESSION|NVTX_EVENTS)",
    ),
    Foreign(
        "This is a report of Nsight Compute about single kernels: Nsight Compute opens it. Record with torch.profiler to see "
        "the training here.",
        path=r"(?i)\.(?:ncu-repz?|nsight-cuprof-report)\Z",
    ),
    Foreign(
        "This is a profile of XLA (JAX, TensorFlow, PyTorch/XLA): xprof opens it. JAX writes one that "
        "opens here with jax.profiler.trace(..., create_perfetto_trace=True).",
        path=r"\.xplane\.pb(?:\.gz)?\Z",
    ),
    Foreign(
        "This is an output of rocprof: record with rocprofv3 --output-format pftrace, or with torch.profiler.",
        path=_ROCPROF_CSV,
        head=rb'\A\{\s*"rocprofiler-sdk-tool"\s*:|\ASQLite format 3\0[\s\S]*?(?:rocpd_|rocpd_kernelapi)',
    ),
    Foreign(
        "This is an output of Intel's unitrace: run it with --chrome-kernel-logging to get a trace that opens here.",
        path=r"\.metrics\.\d+\.csv\Z|(?:^|/)unitrace[^/]*\.(?:csv|txt)\Z",
    ),
    Foreign(
        "This is what torch.compile wrote about its own work (torch_compile_debug): code and graphs, no times of a training.",
        path=r"\A(?P<folder>(?:.*/)?torch_compile_debug/)",
    ),
    Foreign(
        "This is code or a graph that torch.compile (Inductor) wrote: it holds no times of a training.",
        path=_INDUCTOR,
    ),
    Foreign(
        "This is a log of torch.compile (TORCH_TRACE): tlparse makes pages of it.",
        path=r"(?:^|/)dedicated_log_torch_trace_[^/]*\.log(?:\.gz)?\Z",
    ),
    Foreign(
        "This is a recording of memray about memory of the host: memray flamegraph makes a page of it.",
        path=r"(?:^|/)memray-[^/]*\.bin\Z",
        head=rb"\Amemray\0",
    ),
    Foreign(
        "This is a profile of Linux perf: perf script | stackcollapse-perf.pl makes folded stacks of it.",
        path=r"(?:^|/)perf\.data(?:\.old)?\Z",
        head=rb"\APERFILE2",
    ),
    Foreign(
        "This is a profile of cProfile, which has sums and no times: python -m pstats opens it.",
        # marshal's dict (with or without a reference) whose first key is a tuple of a file, a line and a function
        head=rb"\A[\x7b\xfb][\x28\x29\xa8\xa9]",
    ),
    Foreign(
        "This is a database (SQLite), not a profile that is known here: if a profiler wrote it, its own tool opens it. "
        "Record the training with torch.profiler to see it here.",
        head=rb"\ASQLite format 3\0",
    ),
    Foreign(
        "These are weights or a checkpoint, no profile. torch.cuda.memory._dump_snapshot(path) writes a memory snapshot, "
        "not torch.save.",
        path=_WEIGHTS,
        head=rb"\APK\x03\x04[\s\S]{0,200}?/(?:data\.pkl|byteorder|\.format_version)"
        rb"|\A\x80\x02(?:\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e|[\s\S]{0,4096}?ctorch\._utils\n_rebuild_)|\A\x80[\x03-\x05][\s\S]{0,4096}?torch\._utils",
    ),
    Foreign(
        "This is an archive of files: unpack it into the log directory, and what it holds is looked at.",
        path=r"(?i)\.(?:zip|7z|rar|tar|tgz|tbz2|txz|tar\.(?:gz|bz2|xz|zst))\Z",
        head=rb"\APK\x03\x04",
    ),
    Foreign(
        "This is a profile of V8 (Node, Chrome's DevTools): open it at speedscope.app and export it there, or record with "
        "node --trace-event-categories v8,node; both open here.",
        path=r"\.cpuprofile\Z",
    ),
    Foreign(
        "This is text in UTF-16, as PowerShell's > writes it. Save it as UTF-8: Get-Content a.json | Set-Content -Encoding "
        "utf8 b.json.",
        head=rb"\A(?:\xff\xfe|\xfe\xff)",
    ),
    Foreign(
        "This is a pickle, and neither a memory snapshot nor a dump of a flight recorder: weights or results, no profile.",
        head=rb"\A\x80[\x02-\x05]",
        is_last=True,
    ),
)
_UNREAD = (
    (
        r"\.(?:part|partial|te?mp|crdownload|download|filepart)\Z",
        "This copy or download is not finished: wait for its end, or copy the file again.",
    ),
    (
        r"\.(?:zst|bz2|xz|lz4|lzma|br|Z)\Z",
        "This compression is not supported: unpack the file, or compress it with gzip.",
    ),
    (r"\.svgz?(?:\.gz)?\Z", "This is a picture, without numbers: load the recording that it was drawn from."),
    (
        r"\.(?:[ct]sv|parquet|xlsx?)(?:\.gz)?\Z",
        "This is a table, no recording: torch.profiler's export_chrome_trace(path) writes one.",
    ),
    (
        r"(?:trace|profil|prof[._-]|snapshot|flame|timeline|nsys|nccl|perf[._-])[^/]*\.txt\Z",
        "This is text, no recording: torch.profiler's export_chrome_trace(path) writes one.",
    ),
    (
        r"\.(?:json|pickle|pkl|html?|pftrace|perfetto-trace)(?:[.~_-][^/]*)?\Z"
        r"|\.(?:gz|jsonl|ndjson|chrome_?trace|trace|tracing|prof|profile|lprof|perf|pprof|pb|db|sqlite3?|dump|snapshot"
        r"|ctf|otf2|fxt|etl|jfr|nettrace|systrace|ftrace)\Z"
        r"|(?:^|/)(?:[^/.]*[_-])?(?:trace|dump|snapshot)(?:[_-]rank)?[_-]?\d*\Z",
        "No reader looks for this name: rename the file to end in what it holds (.json, .json.gz, .pickle, .pftrace).",
    ),
)
"""Names that a person may have given to a recording, and what to do: only of files that no reader has asked for."""


def foreign(path: str, head: bytes, is_refused: bool = False, is_chosen: bool = False) -> str:
    """Returns what a file is that no reader takes, judged by its path and first (uncompressed) bytes; empty when unknown.

    ``is_refused`` says that every reader has refused it, ``is_chosen`` that a person chose it: its bytes decide.
    """
    text = beginning(head)
    for kind in FOREIGN:
        if (kind.is_empty and head) or (kind.is_last and not is_refused):
            continue
        by_path = kind.is_part or not is_chosen
        if by_path and kind.path is not None and re.search(kind.path, path):
            return kind.text
        if kind.head is not None and re.search(kind.head, text):
            return kind.text
    return ""


@functools.cache
def _by_path() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Patterns of paths and what they tell, compiled when somebody asks: TensorBoard's start does not."""
    return tuple((re.compile(kind.path), kind.text) for kind in FOREIGN if kind.path is not None and not kind.is_empty)


@functools.lru_cache(_PATHS_KEPT)
def place_of(path: str) -> tuple[str, str]:
    """Returns what a path alone tells: the file, or the folder that is one thing with it, and what that is; empty texts."""
    for pattern, text in _by_path():
        if found := pattern.search(path):
            folder = found.groupdict().get("folder")
            return (path if folder is None else folder.rstrip("/") or ".", text)
    return ("", "")


def unread(path: str) -> str:
    """Returns what to do about a file that no reader asks for, empty for names that no recording has."""
    return next((text for name, text in _UNREAD if re.search(name, path, re.IGNORECASE)), "")


def in_short(told: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Returns places and what they are, each once; of a kind with many the folder around all of them and their number."""
    by_text: dict[str, dict[str, None]] = defaultdict(dict)
    for place, text in told:
        by_text[text][place] = None
    short = []
    for text, places in by_text.items():
        if len(places) <= MAX_LISTED:
            short += [(place, text) for place in places]
            continue
        parents = [PurePosixPath(place).parent.parts for place in places]
        common = functools.reduce(_shared, parents)
        short.append(("/".join(common) or ".", f"{text} ({len(places):,} here, {next(iter(places))} is one.)"))
    return short


def _shared(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    same = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return one[:same]
