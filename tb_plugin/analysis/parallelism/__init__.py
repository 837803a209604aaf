"""The roles that device work has in a training on many devices."""
