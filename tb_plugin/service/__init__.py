"""Profile discovery, loading, worker processes and requests."""
