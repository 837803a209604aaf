"""Stack files: folded text (many tools) and speedscope's JSON."""

from tb_plugin.formats.stack_files.reader import StackFilesReader

__all__ = ["StackFilesReader"]
