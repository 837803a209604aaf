"""What views of flight recorders share: the calls of a rank as a table, and the calls of all ranks matched."""
