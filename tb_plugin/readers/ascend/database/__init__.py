"""Profiles that were exported as SQLite: the same parts that the text files give, read by what reads those."""

from tb_plugin.readers.ascend.database.content import Content, analysed, content_of
from tb_plugin.readers.ascend.database.opening import Database, opened

__all__ = ["Content", "Database", "analysed", "content_of", "opened"]
