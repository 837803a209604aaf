"""How long the example queries of the page *Query* take, on a loaded profile of V100 and H100.

``python -m benchmarks.sql FOLDER [EVENTS]`` prints a table. FOLDER keeps the traces. As on the page, each query is one
request, and each profile has one worker process. The first time includes what later queries of a profile share.
"""

from __future__ import annotations

import os
import re
import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks.corpus import ROOT, made
from benchmarks.latency import Page

EXAMPLES = ROOT / "frontend" / "src" / "pages" / "query" / "examples.ts"
SOURCES = ("v100", "h100")
REPEATED = 5


def examples() -> list[tuple[str, str]]:
    """Titles and queries of the page."""
    text = EXAMPLES.read_text(encoding="utf-8")
    return re.findall(r"title: '([^']*)',\s*query: `([^`]*)`", text)


def measured(folder: Path) -> list[tuple[str, float, float]]:
    """Title, milliseconds of the first time, and median milliseconds of the next times, by example."""
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["TORCH_TRACE_CACHE"] = scratch
        page = Page(f"large:{folder}")
        run = page.get("runs")["runs"][0]
        worker = run["workers"][0]
        page.place = {"run": run["name"], "worker": worker["name"], "span": worker["spans"][0]["id"]}
        page.get("view/overview")
        page.get("view/sql")  # tables and columns, which the page asks for first
        found = []
        for title, query in examples():
            for number in range(1 + REPEATED):
                # A space more is another query for the cache of answers.
                page.get("view/sql", {"query": query + " " * number + "--" + "." * number}, note=(title, str(number)))
            took = [each[3] for each in page.asked if each[0] == title]
            found.append((title, took[0], statistics.median(took[1:])))
        page.plugin.close()
    return found


def main(folder: str, events: str = "1000000") -> None:
    """Prints milliseconds by example and trace."""
    columns = [measured(made(Path(folder), int(events), source)) for source in SOURCES]
    print("| query, ms | " + " | ".join(f"{source}, first | {source}, then" for source in SOURCES) + " |")
    print("|---|" + "---:|" * 2 * len(SOURCES))
    for rows in zip(*columns, strict=True):
        cells = [f"{number:,.0f}" for _, first, then in rows for number in (first, then)]
        print(f"| {rows[0][0]} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main(*sys.argv[1:])
