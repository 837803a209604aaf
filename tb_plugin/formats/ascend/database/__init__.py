"""Profiles that were exported as SQLite: the same parts that the text files give, read by what reads those."""

from tb_plugin.formats.ascend.database.content import Content, analysed, content_of
from tb_plugin.formats.ascend.database.safe_open import Database, opened

__all__ = ["Content", "Database", "analysed", "content_of", "opened"]
