"""SQLite profiles, which contain the same data as the text files."""

from tb_plugin.formats.ascend.database.content import Content, analysis_tables, content_of
from tb_plugin.formats.ascend.database.safe_open import Database, open_database

__all__ = ["Content", "Database", "analysis_tables", "content_of", "open_database"]
