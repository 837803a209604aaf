"""What is sampled stands in docs/testing.md, so that nothing is left out unseen."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORDS = {"examples", "sampled", "DEEP", "UNLIKE"}
PAGE = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")


def asking() -> Iterator[tuple[str, str]]:
    """(file, test) of everything that asks how much is tried; for a list of cases of a module, its file."""
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if not any(word in text for word in WORDS):
            continue
        tree = ast.parse(text)
        inside = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                words = {
                    name.id for item in node.decorator_list for name in ast.walk(item) if isinstance(name, ast.Name)
                }
                inside |= {id(name) for item in node.decorator_list for name in ast.walk(item)}
                if words & WORDS:
                    yield path.name, f"`{node.name}`"
        for node in ast.walk(tree):
            calls = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "sampled"
            if calls and id(node) not in inside:
                yield path.name, f"`{path.relative_to(ROOT).as_posix()}`"


def test_everything_that_is_sampled_is_listed() -> None:
    found = dict.fromkeys(asking())
    assert len(found) > 15
    assert [(file, name) for file, name in found if name not in PAGE] == []
