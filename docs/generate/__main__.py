"""``python -m docs.generate`` writes the pages of docs/reference."""

from docs.generate import write

write()
