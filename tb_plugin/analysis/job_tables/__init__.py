"""Questions about the ranks of a job, of tables that profiles state of it (``trace.job_tables``)."""
