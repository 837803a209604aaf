"""Ascend NPU profiles: folders written by torch_npu and MindSpore (docs/npu.md)."""

from __future__ import annotations

from tb_plugin.formats.ascend import filenames as files
from tb_plugin.formats.ascend.cluster import filenames as cluster_files
from tb_plugin.formats.format_entry import TRACE, FormatEntry


def _never(head: bytes) -> bool:
    """Returns False, because profile folders are recognised by file names, never by the content of a file."""
    return False


PROFILE = FormatEntry(
    __name__,
    files.READER_ID,
    "Ascend profile",
    order=10,
    raw=TRACE,
    records_devices=True,
    endings=("_ascend_pt/", "_ascend_ms/", f"{files.OUTPUT}/"),
    find=files.candidates,
    sniff=_never,
)
CLUSTER = FormatEntry(
    f"{__name__}.cluster",
    cluster_files.READER_ID,
    "Ascend cluster analysis",
    order=20,
    raw="tb_plugin.model.cluster:Cluster",
    endings=(f"{cluster_files.OUTPUT}/", cluster_files.STEPS, cluster_files.DATABASE),
    find=cluster_files.candidates,
    sniff=_never,
)
FORMATS = (PROFILE, CLUSTER)
