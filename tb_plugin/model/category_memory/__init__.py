"""Memory by category: how many bytes each category had when. No blocks, no operators and no steps are known of it."""
