"""A snapshot of an allocator: what its memory holds at one moment, and the events that led there."""
