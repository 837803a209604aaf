"""From files of log directories to runs, workers and spans."""
