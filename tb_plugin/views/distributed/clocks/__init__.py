"""Clock offsets between ranks, and late arrivals."""
