"""Discovery of runs, workers and spans in log directories."""
