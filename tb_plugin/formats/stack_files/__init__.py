"""Files of stacks: folded text (``export_stacks``, flame graphs, py-spy, collapsed snapshots) and speedscope's JSON."""

from tb_plugin.formats.stack_files.reader import StackFilesReader

__all__ = ["StackFilesReader"]
