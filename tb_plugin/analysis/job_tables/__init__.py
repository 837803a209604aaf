"""Ranks of a job, from the tables that profiles report (``trace.job_tables``)."""
