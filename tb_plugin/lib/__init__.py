"""Tools that know nothing of profiles."""
