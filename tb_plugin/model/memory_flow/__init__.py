"""Memory flow: where tensors lay in memory, and from when to when. Of their allocator and of what ran nothing is known."""
