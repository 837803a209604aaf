"""What views of an allocator snapshot share: its devices, what they hold at a moment, their stacks in words."""
