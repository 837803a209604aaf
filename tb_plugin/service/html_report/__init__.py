"""One HTML file with the answers of a profile."""
