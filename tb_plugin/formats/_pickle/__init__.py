"""Safe reading of pickles with plain data; no code is executed (decision 16)."""
