"""General tools, independent of profiles."""
