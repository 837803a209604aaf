"""Pickles of plain data, read by an opcode machine of our own: what all formats share that are pickles (decision 16)."""
