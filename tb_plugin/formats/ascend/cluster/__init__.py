"""What ``msprof-analyze cluster`` makes of the profiles of a job: a folder of tables about all its ranks."""

from tb_plugin.formats.ascend.cluster.reader import AscendClusterReader

__all__ = ["AscendClusterReader"]
