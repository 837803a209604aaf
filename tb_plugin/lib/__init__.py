"""General-purpose helpers, independent of profiles."""
