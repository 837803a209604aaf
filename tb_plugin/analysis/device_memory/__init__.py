"""Memory blocks, peaks and reserved memory, from allocator events."""
