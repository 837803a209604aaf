"""docs/formats.md says of every format which pages its profiles have: compared with what the samples are offered."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

from tb_plugin import registry
from tests.samples import OURS, made

PAGE = Path(__file__).resolve().parents[1] / "docs" / "formats.md"
YES, NO = "yes", ""
PAGES = [analysis for analysis in registry.analyses() if analysis.traits.place != "detail"]


def offered() -> dict[str, dict[str, str]]:
    """Title of each page -> reader -> whether at least one sample of it has the page."""
    models = defaultdict(list)
    for sample in OURS:
        models[sample.reader.id].append(made(sample.name))

    def has(title: str, reader: str) -> bool:
        pages = [page for page in PAGES if page.title == title]
        found = ((page, model) for page in pages for model in models[reader] if isinstance(model, page.model))
        return any(page.missing(model) is None for page, model in found)

    # Two models may have a page of one name. Pages about several profiles are there where one profile does not rule it out.
    titles = dict.fromkeys(page.title for page in PAGES)
    return {
        title: {reader.id: YES if has(title, reader.id) else NO for reader in registry.readers()} for title in titles
    }


def written() -> dict[str, dict[str, str]]:
    """The table as it stands on the page."""
    text = PAGE.read_text(encoding="utf-8").partition("\n## Pages\n")[2].partition("\n## ")[0]
    head, _, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in re.findall(r"^\|.*\|$", text, re.M)
    ]
    readers = [cell.strip("`") for cell in head[1:]]
    return {row[0]: dict(zip(readers, row[1:], strict=True)) for row in rows}


def test_the_table_of_pages_is_what_samples_are_offered() -> None:
    assert written() == offered()


def table() -> str:
    """The table as it should stand there: ``python -m tests.test_formats`` prints it."""
    readers = [reader.id for reader in registry.readers()]
    lines = [["page", *(f"`{reader}`" for reader in readers)], ["---"] * (len(readers) + 1)]
    lines += [[title, *cells.values()] for title, cells in offered().items()]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


if __name__ == "__main__":
    print(table())
