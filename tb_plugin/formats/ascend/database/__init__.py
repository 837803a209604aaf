"""SQLite profiles, which contain the same data as the text files."""
