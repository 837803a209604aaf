"""What a flight recorder kept of one rank: the last collectives that it called, and how far each came."""
