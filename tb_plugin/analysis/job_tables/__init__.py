"""Ranks of a job, from tables in the profile (``trace.job_tables``)."""
