"""Explanations for files that no reader takes.

A new reader for one of these formats claims its names (``Candidate.certain``) or deletes its entry here.
"""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import PurePosixPath

import msgspec

from tb_plugin.formats._chrome.sniffing import beginning

# the name says little, so the first bytes are read; no kind of file that grows during training
LOOKED_INTO = re.compile(r"(?i)\.(?:prof|bin|db|sqlite3?)\Z")
MAX_LISTED = 3  # more files of one kind are listed as their folder and a count
_CACHED_PATHS = 1 << 16


class Foreign(msgspec.Struct, frozen=True):
    """A kind of file that cannot be read as a profile."""

    text: str
    """What the file is and what to do about it."""
    path: str | None = None
    """Regular expression for the path. A group ``folder`` marks a folder that is one item."""
    head: bytes | None = None
    """Regular expression for the first bytes."""
    is_empty: bool = False  # matches only empty files
    is_last: bool = False  # applies only after every reader has refused the file
    is_part: bool = False
    """Part of a larger profile: the path counts even if the user chose this file."""


_ASCEND = (
    "This belongs to an Ascend profile (torch_npu), which opens as a folder. Keep the files of ASCEND_PROFILER_OUTPUT "
    "together, under that name. torch_npu.profiler.profiler.analyse(...) creates it from raw PROF folders."
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
        "experimental_config=torch._C._profiler._ExperimentalConfig(verbose=True), and writes nothing for an unused device.",
        path=r"(?:stacks?[^/]{0,100}|self_[a-z]{1,20}_time_total[^/]{0,20})\.txt$",
        is_empty=True,
    ),
    Foreign(
        "This is a Git LFS pointer, not the file itself: run git lfs pull.",
        head=rb"\Aversion https://git-lfs\.github\.com/spec/",
    ),
    Foreign(
        "This is an image written by export_memory_timeline, without numbers. Export to a name that ends in .raw.json.gz.",
        head=rb"(?i)\A<html>[\s\S]{0,400}?(?:Memory Timeline HTML</title>|<img src=['\"]data:image/png;base64,)",
    ),
    Foreign(
        "This is a memray page about CPU memory. Open it in a browser.",
        head=rb"(?i)\A<(?:!doctype\s+html|html)\b[\s\S]*?<title>[^<]{0,80}memray",
    ),
    Foreign(
        "This is a tlparse report about torch.compile, without training times. Open its index.html in a browser.",
        path=r"\A(?P<folder>(?:.*/)?)(?:failures_and_restarts\.html|compile_directory\.json)\Z",
        head=rb"(?i)\A<(?:!doctype\s+html|html)\b[\s\S]*?(?:tlparse|Stack trie|IR dumps)",
    ),
    Foreign(
        "This is a web page, not a trace. The download may have ended at a login page or an error.",
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
        "This is raw data of an Ascend profiler. torch_npu.profiler.profiler.analyse(...) converts it to a folder that opens "
        "here; the output of msprof --export=on does not.",
        path=r"\A(?P<folder>(?:.*/)?PROF_\d+_\d+_[A-Za-z]+/)",
    ),
    Foreign(
        "This is a report of Nsight Systems. Open it there, or record with torch.profiler.",
        path=r"(?i)\.(?:nsys-rep|qdrep|qdstrm)\Z",
    ),
    Foreign(
        "This is a database of Nsight Systems (nsys export). Open the original report in Nsight Systems, "
        "or record with torch.profiler.",
        head=rb"\ASQLite format 3\0[\s\S]*?(?:CUPTI_ACTIVITY_KIND_|TARGET_INFO_SESSION|NVTX_EVENTS)",
    ),
    Foreign(
        "This is a report of Nsight Compute about single kernels. Open it there, or record with torch.profiler.",
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
        "This is output of Intel's unitrace. Run unitrace with --chrome-kernel-logging to get a trace that opens here.",
        path=r"\.metrics\.\d+\.csv\Z|(?:^|/)unitrace[^/]*\.(?:csv|txt)\Z",
    ),
    Foreign(
        "This is debug output of torch.compile (torch_compile_debug): code and graphs without training times.",
        path=r"\A(?P<folder>(?:.*/)?torch_compile_debug/)",
    ),
    Foreign(
        "This is code or a graph written by torch.compile (Inductor), without training times.",
        path=_INDUCTOR,
    ),
    Foreign(
        "This is a torch.compile log (TORCH_TRACE). Run tlparse to turn it into pages.",
        path=r"(?:^|/)dedicated_log_torch_trace_[^/]*\.log(?:\.gz)?\Z",
    ),
    Foreign(
        "This is a memray recording of CPU memory. Run memray flamegraph to turn it into a page.",
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
        # marshal's dict (with or without a reference) whose first key is a tuple of a file, a line and a function
        head=rb"\A[\x7b\xfb][\x28\x29\xa8\xa9]",
    ),
    Foreign(
        "This is an SQLite database of an unknown kind. Open it with the tool that wrote it, "
        "or record with torch.profiler.",
        head=rb"\ASQLite format 3\0",
    ),
    Foreign(
        "These are weights or a checkpoint, not a profile. For a memory snapshot, use "
        "torch.cuda.memory._dump_snapshot(path), not torch.save.",
        path=_WEIGHTS,
        head=rb"\APK\x03\x04[\s\S]{0,200}?/(?:data\.pkl|byteorder|\.format_version)"
        rb"|\A\x80\x02(?:\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e|[\s\S]{0,4096}?ctorch\._utils\n_rebuild_)|\A\x80[\x03-\x05][\s\S]{0,4096}?torch\._utils",
    ),
    Foreign(
        "This is an archive of files: unpack it into the log directory.",
        path=r"(?i)\.(?:zip|7z|rar|tar|tgz|tbz2|txz|tar\.(?:gz|bz2|xz|zst))\Z",
        head=rb"\APK\x03\x04",
    ),
    Foreign(
        "This is a V8 profile (Node, Chrome's DevTools). Open it at speedscope.app and export it there, or record with "
        "node --trace-event-categories v8,node. Both results open here.",
        path=r"\.cpuprofile\Z",
    ),
    Foreign(
        "This text is UTF-16, as PowerShell's > writes it. Save it as UTF-8: Get-Content a.json | Set-Content -Encoding "
        "utf8 b.json.",
        head=rb"\A(?:\xff\xfe|\xfe\xff)",
    ),
    Foreign(
        "This pickle is neither a memory snapshot nor a flight recorder dump. It may contain weights or results.",
        head=rb"\A\x80[\x02-\x05]",
        is_last=True,
    ),
)
# names of possible recordings that no reader claims, and what to do
_UNCLAIMED_NAMES = (
    (
        r"\.(?:part|partial|te?mp|crdownload|download|filepart)\Z",
        "This copy or download is incomplete. Wait for its end, or copy the file again.",
    ),
    (
        r"\.(?:zst|bz2|xz|lz4|lzma|br|Z)\Z",
        "This compression is not supported: unpack the file, or compress it with gzip.",
    ),
    (r"\.svgz?(?:\.gz)?\Z", "This is an image without numbers. Load the recording that it was drawn from."),
    (
        r"\.(?:[ct]sv|parquet|xlsx?)(?:\.gz)?\Z",
        "This is a table, not a recording. torch.profiler's export_chrome_trace(path) writes a recording.",
    ),
    (
        r"(?:trace|profil|prof[._-]|snapshot|flame|timeline|nsys|nccl|perf[._-])[^/]*\.txt\Z",
        "This is text, not a recording. torch.profiler's export_chrome_trace(path) writes a recording.",
    ),
    (
        r"\.(?:json|pickle|pkl|html?|pftrace|perfetto-trace)(?:[.~_-][^/]*)?\Z"
        r"|\.(?:gz|jsonl|ndjson|chrome_?trace|trace|tracing|prof|profile|lprof|perf|pprof|pb|db|sqlite3?|dump|snapshot"
        r"|ctf|otf2|fxt|etl|jfr|nettrace|systrace|ftrace)\Z"
        r"|(?:^|/)(?:[^/.]*[_-])?(?:trace|dump|snapshot)(?:[_-]rank)?[_-]?\d*\Z",
        "This file name is not recognised: rename the file to end in its format (.json, .json.gz, .pickle, .pftrace).",
    ),
)


def foreign(path: str, head: bytes, is_refused: bool = False, is_chosen: bool = False) -> str:
    """Returns what an unsupported file is, by its path and first (uncompressed) bytes; empty if unknown.

    ``is_refused``: every reader has refused it. ``is_chosen``: the user chose it, so its bytes decide.
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
    """Compiles the path patterns on first use, to keep TensorBoard's start fast."""
    return tuple((re.compile(kind.path), kind.text) for kind in FOREIGN if kind.path is not None and not kind.is_empty)


@functools.lru_cache(_CACHED_PATHS)
def place_of(path: str) -> tuple[str, str]:
    """Returns the file or its folder, and what it is, by path alone; empty texts if unknown."""
    for pattern, text in _by_path():
        if found := pattern.search(path):
            folder = found.groupdict().get("folder")
            return (path if folder is None else folder.rstrip("/") or ".", text)
    return ("", "")


def unread(path: str) -> str:
    """Returns what to do about a file that no reader claims, empty if it is no possible recording."""
    return next((text for name, text in _UNCLAIMED_NAMES if re.search(name, path, re.IGNORECASE)), "")


def in_short(explained: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Returns each place and its explanation once; many places of one kind become a folder and a count."""
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
        short.append(("/".join(common) or ".", f"{text} ({len(places):,} here, for example {next(iter(places))}.)"))
    return short


def _shared(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    same = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return one[:same]
