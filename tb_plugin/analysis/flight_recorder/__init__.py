"""Flight recorder calls: tables, headline and metrics."""
