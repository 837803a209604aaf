"""Pages of the navigation, in order."""

from __future__ import annotations

from collections.abc import Mapping

PAGES: Mapping[str, str] = {
    "overview": "Overview",
    "serving": "Serving",
    "timeline": "Timeline",
    "stacks": "Stacks",
    "idle": "GPU idle",
    "operators": "Operators & kernels",
    "model": "Model",
    "memory": "Memory",
    "ranks": "Ranks",
    "compile": "Compile & graphs",
    "compare": "Compare",
    "query": "Query",
}
"""Titles by id. A view of an extension can name another page, which comes last and has its id as its title."""


def page_title(page: str, device: str = "GPU") -> str:
    """Returns the title of a page. ``device`` is the word for the profile's devices."""
    return PAGES.get(page, page).replace("GPU", device)
