"""Models of profiles, one package per kind."""
