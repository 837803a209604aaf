"""Public docstrings are sentences: functions open with a verb, and nothing opens with "Of ..."."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OURS = sorted(path for name in ("tb_plugin", "torch_trace_megengine") for path in (ROOT / name).rglob("*.py"))
VERB = re.compile(r"[A-Z][a-z]+s\b")
"""Third person: Returns, Prints, Lays, Raises."""


def docstrings(path: Path) -> Iterator[tuple[str, str, bool]]:
    """Where, text, and whether it is a function's: of all that is public, and of attributes of public classes."""

    def walk(body: list[ast.stmt], within: str) -> Iterator[tuple[str, str, bool]]:
        for node in body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
                if text := ast.get_docstring(node):
                    yield f"{within}.{node.name}", text, isinstance(node, ast.FunctionDef)
                if isinstance(node, ast.ClassDef):
                    yield from walk(node.body, f"{within}.{node.name}")
            elif (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                yield f"{within}, line {node.lineno}", node.value.value.strip(), False

    yield from walk(ast.parse(path.read_text(encoding="utf-8")).body[1:], path.relative_to(ROOT).as_posix())


def test_functions_open_with_a_verb() -> None:
    found = [(where, text[:60]) for path in OURS for where, text, of_function in docstrings(path) if of_function]
    assert len(found) > 300
    assert [(where, text) for where, text in found if not VERB.match(text)] == []


def test_nothing_opens_without_a_subject() -> None:
    odd = re.compile(r"Of (the|a|an|one|each|these|those|all)\b|As of\b")
    assert [(where, text[:60]) for path in OURS for where, text, _ in docstrings(path) if odd.match(text)] == []
