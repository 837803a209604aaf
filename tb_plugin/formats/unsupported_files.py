"""Explanations for files that no reader supports.

A new reader for such a file type claims its file names (``Candidate.certain``), or its author deletes the entry
here.
"""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import PurePosixPath

import msgspec

from tb_plugin.formats._chrome.sniffing import text_start

# extensions for which the first bytes are read, because the name is ambiguous; not for files that grow during training
LOOKED_INTO = re.compile(r"(?i)\.(?:prof|bin|db|sqlite3?)\Z")
MAX_LISTED = 3  # if there are more files of one kind, only their folder and a count are listed
_CACHED_PATHS = 1 << 16


class Foreign(msgspec.Struct, frozen=True):
    """A type of file that is not a supported profile."""

    text: str
    """Description of the file, and what the user can do."""
    path: str | None = None
    """Regular expression for the path. If it has a group ``folder``, the whole folder is listed as one item."""
    head: bytes | None = None
    """Regular expression for the first bytes."""
    is_empty: bool = False  # matches only empty files
    is_last: bool = False  # applies only after every reader has refused the file
    is_part: bool = False
    """True if the file is part of a larger profile. Then ``path`` is checked even if the user chose this file."""


_ASCEND = (
    "This file is part of an Ascend profile (torch_npu), which is opened as a folder. Keep the files "
    "of ASCEND_PROFILER_OUTPUT together in a folder of that name. "
    "torch_npu.profiler.profiler.analyse(...) creates it from raw PROF folders."
)
_ROCPROF_NAMES = (
    r"(?:kernel|hip_(?:runtime_|compiler_)?api|hsa_(?:core_|amd_ext_|image_ext_|finalize_ext_)?api|memory_copy|marker_api|rccl_api"
    r"|scratch_memory|memory_allocation|domain)"
)
_ROCPROF_CSV = (
    rf"(?:_(?:{_ROCPROF_NAMES}|counter_collection|agent_info)(?:_trace|_stats)?|(?:^|/){_ROCPROF_NAMES}_(?:trace|stats)"
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
        "The file is empty. export_stacks needs with_stack=True and "
        "experimental_config=torch._C._profiler._ExperimentalConfig(verbose=True). For an unused device, "
        "export_stacks writes an empty file.",
        path=r"(?:stacks?[^/]{0,100}|self_[a-z]{1,20}_time_total[^/]{0,20})\.txt$",
        is_empty=True,
    ),
    Foreign(
        "This is a Git LFS pointer, not the file itself. Run git lfs pull.",
        head=rb"\Aversion https://git-lfs\.github\.com/spec/",
    ),
    Foreign(
        "This is an image from export_memory_timeline, which contains no numbers. Export to a file name "
        "that ends in .raw.json.gz.",
        head=rb"(?i)\A<html>[\s\S]{0,400}?(?:Memory Timeline HTML</title>|<img src=['\"]data:image/png;base64,)",
    ),
    Foreign(
        "This is a memray report about CPU memory. Open it in a browser.",
        head=rb"(?i)\A<(?:!doctype\s+html|html)\b[\s\S]*?<title>[^<]{0,80}memray",
    ),
    Foreign(
        "This is a tlparse report about torch.compile. It contains no training times. Open its "
        "index.html in a browser.",
        path=r"\A(?P<folder>(?:.*/)?)(?:failures_and_restarts\.html|compile_directory\.json)\Z",
        head=rb"(?i)\A<(?:!doctype\s+html|html)\b[\s\S]*?(?:tlparse|Stack trie|IR dumps)",
    ),
    Foreign(
        "This is a web page, not a trace. The download may have returned a login page or an error.",
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
        "This is raw data of an Ascend profiler. Convert it with "
        "torch_npu.profiler.profiler.analyse(...). The output of msprof --export=on cannot be opened "
        "here.",
        path=r"\A(?P<folder>(?:.*/)?PROF_\d+_\d+_[A-Za-z]+/)",
    ),
    Foreign(
        "This is a report of Nsight Systems. Open it in Nsight Systems, or record with torch.profiler.",
        path=r"(?i)\.(?:nsys-rep|qdrep|qdstrm)\Z",
    ),
    Foreign(
        "This is a database of Nsight Systems (nsys export). Open the original report in Nsight Systems, "
        "or record with torch.profiler.",
        head=rb"\ASQLite format 3\0[\s\S]*?(?:CUPTI_ACTIVITY_KIND_|TARGET_INFO_SESSION|NVTX_EVENTS)",
    ),
    Foreign(
        "This is a report of Nsight Compute about single kernels. Open it in Nsight Compute, or record "
        "with torch.profiler.",
        path=r"(?i)\.(?:ncu-repz?|nsight-cuprof-report)\Z",
    ),
    Foreign(
        "This is an XLA profile (JAX, TensorFlow, PyTorch/XLA). Open it in xprof, or record a JAX program "
        "with jax.profiler.trace(..., create_perfetto_trace=True).",
        path=r"\.xplane\.pb(?:\.gz)?\Z",
    ),
    Foreign(
        "This is rocprof output. Record with rocprofv3 --output-format pftrace, or with torch.profiler.",
        path=_ROCPROF_CSV,
        head=rb'\A\{\s*"rocprofiler-sdk-tool"\s*:|\ASQLite format 3\0[\s\S]*?(?:rocpd_|rocpd_kernelapi)',
    ),
    Foreign(
        "This is output of Intel's unitrace. Run unitrace with --chrome-kernel-logging to write a trace "
        "that can be opened here.",
        path=r"\.metrics\.\d+\.csv\Z|(?:^|/)unitrace[^/]*\.(?:csv|txt)\Z",
    ),
    Foreign(
        "This is debug output of torch.compile (torch_compile_debug). It contains code and graphs, but "
        "no training times.",
        path=r"\A(?P<folder>(?:.*/)?torch_compile_debug/)",
    ),
    Foreign(
        "This is code or a graph from torch.compile (Inductor). It contains no training times.",
        path=_INDUCTOR,
    ),
    Foreign(
        "This is a torch.compile log (TORCH_TRACE). Run tlparse to convert it to web pages.",
        path=r"(?:^|/)dedicated_log_torch_trace_[^/]*\.log(?:\.gz)?\Z",
    ),
    Foreign(
        "This is a memray recording of CPU memory. Run memray flamegraph to convert it to a web page.",
        path=r"(?:^|/)memray-[^/]*\.bin\Z",
        head=rb"\Amemray\0",
    ),
    Foreign(
        "This is a Linux perf profile. Convert it to folded stacks: perf script | stackcollapse-perf.pl.",
        path=r"(?:^|/)perf\.data(?:\.old)?\Z",
        head=rb"\APERFILE2",
    ),
    Foreign(
        "This is a cProfile file, which has totals but no timeline. Open it with python -m pstats.",
        # a marshalled dict (with or without reference flag) whose first key is a tuple of file, line and function
        head=rb"\A[\x7b\xfb][\x28\x29\xa8\xa9]",
    ),
    Foreign(
        "This is an SQLite database of an unknown kind. Open it with the tool that wrote it, "
        "or record with torch.profiler.",
        head=rb"\ASQLite format 3\0",
    ),
    Foreign(
        "This file contains weights or a checkpoint, not a profile. To write a memory snapshot, use "
        "torch.cuda.memory._dump_snapshot(path), not torch.save.",
        path=_WEIGHTS,
        head=rb"\APK\x03\x04[\s\S]{0,200}?/(?:data\.pkl|byteorder|\.format_version)"
        rb"|\A\x80\x02(?:\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e|[\s\S]{0,4096}?ctorch\._utils\n_rebuild_)|\A\x80[\x03-\x05][\s\S]{0,4096}?torch\._utils",
    ),
    Foreign(
        "This is an archive of files. Unpack it into the log directory.",
        path=r"(?i)\.(?:zip|7z|rar|tar|tgz|tbz2|txz|tar\.(?:gz|bz2|xz|zst))\Z",
        head=rb"\APK\x03\x04",
    ),
    Foreign(
        "This is a V8 profile (Node, Chrome's DevTools). Open it at speedscope.app and export it there, "
        "or record with node --trace-event-categories v8,node. Both kinds of files can be opened here.",
        path=r"\.cpuprofile\Z",
    ),
    Foreign(
        "This text file has the encoding UTF-16, probably from PowerShell's >. Save it as UTF-8: "
        "Get-Content a.json | Set-Content -Encoding utf8 b.json.",
        head=rb"\A(?:\xff\xfe|\xfe\xff)",
    ),
    Foreign(
        "This pickle is neither a memory snapshot nor a flight recorder dump. It may contain weights or results.",
        head=rb"\A\x80[\x02-\x05]",
        is_last=True,
    ),
)
# names of possible recordings that no reader claims, with advice
_UNCLAIMED_NAMES = (
    (
        r"\.(?:part|partial|te?mp|crdownload|download|filepart)\Z",
        "This copy or download is incomplete. Wait until it is complete, or copy the file again.",
    ),
    (
        r"\.(?:zst|bz2|xz|lz4|lzma|br|Z)\Z",
        "This compression is not supported. Unpack the file, or compress it with gzip.",
    ),
    (r"\.svgz?(?:\.gz)?\Z", "This is an image without numbers. Load the original recording instead."),
    (
        r"\.(?:[ct]sv|parquet|xlsx?)(?:\.gz)?\Z",
        ("This is a table, not a recording. To write a recording, call torch.profiler's export_chrome_trace(path)."),
    ),
    (
        r"(?:trace|profil|prof[._-]|snapshot|flame|timeline|nsys|nccl|perf[._-])[^/]*\.txt\Z",
        ("This is text, not a recording. To write a recording, call torch.profiler's export_chrome_trace(path)."),
    ),
    (
        r"\.(?:json|pickle|pkl|html?|pftrace|perfetto-trace)(?:[.~_-][^/]*)?\Z"
        r"|\.(?:gz|jsonl|ndjson|chrome_?trace|trace|tracing|prof|profile|lprof|perf|pprof|pb|db|sqlite3?|dump|snapshot"
        r"|ctf|otf2|fxt|etl|jfr|nettrace|systrace|ftrace)\Z"
        r"|(?:^|/)(?:[^/.]*[_-])?(?:trace|dump|snapshot)(?:[_-]rank)?[_-]?\d*\Z",
        "This file name is not recognized. Rename the file so that its name ends in the extension of its "
        "format (.json, .json.gz, .pickle, .pftrace).",
    ),
)


def identify_unsupported(path: str, head: bytes, is_refused: bool = False, is_chosen: bool = False) -> str:
    """Returns what an unsupported file is, by path and first bytes, or "". The path of a chosen file rarely counts."""
    text = text_start(head)
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
    """Compiles the path patterns on first use, so that TensorBoard starts fast."""
    return tuple((re.compile(kind.path), kind.text) for kind in FOREIGN if kind.path is not None and not kind.is_empty)


@functools.lru_cache(_CACHED_PATHS)
def place_of(path: str) -> tuple[str, str]:
    """Returns the file or its folder, and a description, based only on the path. Returns ("", "") if the type is unknown."""
    for pattern, text in _by_path():
        if found := pattern.search(path):
            folder = found.groupdict().get("folder")
            return (path if folder is None else folder.rstrip("/") or ".", text)
    return ("", "")


def advice_for_unread(path: str) -> str:
    """Returns advice for a file that no reader claims, or "" if the file name is not that of a recording."""
    return next((text for name, text in _UNCLAIMED_NAMES if re.search(name, path, re.IGNORECASE)), "")


def in_short(explained: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Merges equal explanations. If many files have the same one, they are replaced by their common folder and a count."""
    by_text: dict[str, dict[str, None]] = defaultdict(dict)
    for place, text in explained:
        by_text[text][place] = None
    short = []
    for text, places in by_text.items():
        if len(places) <= MAX_LISTED:
            short += [(place, text) for place in places]
            continue
        parents = [PurePosixPath(place).parent.parts for place in places]
        common = functools.reduce(_shared, parents)
        short.append(
            (
                "/".join(common) or ".",
                f"{text} ({len(places):,} such files or folders, for example {next(iter(places))}.)",
            )
        )
    return short


def _shared(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    same = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return one[:same]
