"""How fast data move."""
