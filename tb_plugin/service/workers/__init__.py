"""Worker processes, their questions and their memory."""
