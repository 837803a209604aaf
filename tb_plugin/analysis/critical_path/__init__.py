"""Critical path of steps: the longest chain of dependent work."""
