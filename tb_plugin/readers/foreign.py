"""Files that no reader takes, by what they are: a person who sees one among what was skipped learns why, and what to do.

A reader that comes for one of these formats claims its names (``Candidate.certain``) or takes its line here away.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tb_plugin.readers.chrome.sniffing import beginning


@dataclass(frozen=True)
class Foreign:
    """A kind of file that is no profile which can be read."""

    text: str
    """What it is and what to do about it."""
    path: str | None = None
    """Regular expression that is found in the path of such files."""
    head: bytes | None = None
    """Regular expression that is found in their first bytes."""
    is_empty: bool = False
    """Such files hold nothing; others of that path are something else."""


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
        "This is a web page, not a trace: a download may have ended at a login or an error.",
        head=rb"(?i)\A<(?:!doctype\s+html|html)\b(?![\s\S]*\"base64\"\s*:)",
    ),
    Foreign(
        "This belongs to an Ascend profile (torch_npu), which is not read yet.",
        path=r"(?:^|/)ASCEND_PROFILER_OUTPUT/|_ascend_pt/|(?:^|/)trace_view\.json(?:\.gz)?$",
        head=rb'"Input (?:Dims|type)"\s*:\s*"[^"\\]{0,400};\\r\\n',
    ),
    Foreign(
        "This is a profile of MegEngine, which is not read yet.",
        path=r"\.chrome_timeline\.json(?:\.gz)?$",
        head=rb'"(?:gpu_usgae_ratio|train_time_ratio|nr_alive_tensor)"',
    ),
)


def foreign(path: str, head: bytes) -> str:
    """Returns what a file is that no reader takes, judged by its path and first (uncompressed) bytes; empty when unknown."""
    text = beginning(head)
    for kind in FOREIGN:
        if kind.is_empty != (not head):
            continue
        if kind.path is not None and re.search(kind.path, path):
            return kind.text
        if kind.head is not None and re.search(kind.head, text):
            return kind.text
    return ""
