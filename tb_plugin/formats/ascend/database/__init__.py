"""SQLite profiles, with the same parts as the text files."""

from tb_plugin.formats.ascend.database.content import Content, analysed, content_of
from tb_plugin.formats.ascend.database.safe_open import Database, opened

__all__ = ["Content", "Database", "analysed", "content_of", "opened"]
