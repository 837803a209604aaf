"""Output of ``msprof-analyze cluster``: tables about all ranks of a job."""

from tb_plugin.formats.ascend.cluster.reader import AscendClusterReader

__all__ = ["AscendClusterReader"]
