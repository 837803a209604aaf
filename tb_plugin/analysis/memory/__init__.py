"""Memory blocks of traces and snapshots: owners, growth, findings."""
