"""Steps and communication: calls, links, packets and groups, of one rank or of a whole job."""
