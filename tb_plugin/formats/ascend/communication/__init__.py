"""Steps and communication of one rank or of a whole job."""
