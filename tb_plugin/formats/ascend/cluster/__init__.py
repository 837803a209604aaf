"""What ``msprof-analyze cluster`` makes of the profiles of a job: a folder of tables about all its ranks."""
