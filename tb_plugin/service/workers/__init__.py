"""Worker processes, their requests and their memory."""
