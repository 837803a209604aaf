"""Output of ``msprof-analyze cluster``: tables about all ranks of a job."""
