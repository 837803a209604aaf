"""What an analysis of a whole job found: times, communication and links of all its ranks, without their events."""
