"""What allocator events of a trace say of each device: its blocks, its peaks, and what is reserved from the driver."""
