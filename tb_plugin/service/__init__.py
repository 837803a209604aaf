"""When work happens: discovery, the catalog of profiles, worker processes, what is open."""
