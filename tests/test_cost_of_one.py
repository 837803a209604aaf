"""What one more of a kind costs: its own files, and nothing else in the repository.

Each test adds the example of a page of docs to a copy of the repository, runs ``make docs``, and looks at what differs.
"""

from __future__ import annotations

import filecmp
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.depth import sampled

ROOT = Path(__file__).resolve().parents[1]
COPIED = ("tb_plugin", "torch_trace_megengine", "docs", "tests", "pyproject.toml", "setup.cfg")
IGNORED = shutil.ignore_patterns("static", "node_modules", ".pytest_cache")
BLOCK = re.compile(r"```python\n# (\S+?)(?:, in (\w+))?\n(.*?)```", re.DOTALL)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the working tree of code, docs and tests."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tmp_path / name, ignore=IGNORED)
        else:
            shutil.copy(source, tmp_path / name)
    (tmp_path / "samples").symlink_to(ROOT / "samples")
    return tmp_path


def add_example(tree: Path, page: str) -> list[str]:
    """Writes the files of the example of a page, or adds to a dictionary of a file; returns their paths."""
    paths = []
    for path, name, code in BLOCK.findall((ROOT / "docs" / page).read_text(encoding="utf-8")):
        file = tree / path
        if name:
            text = file.read_text(encoding="utf-8")
            assert f"\n{name} = {{\n" in text, f"{path} has no {name}"
            code = text.replace(f"\n{name} = {{\n", f"\n{name} = {{\n{code}")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(code, encoding="utf-8")
        paths.append(path)
    return paths


DOCS_THEN_TESTS = "import sys, pytest; from docs.generate import write; write(); sys.exit(pytest.main(sys.argv[1:]))"


def run(tree: Path, *tests: str) -> None:
    """Runs ``make docs`` and tests of the copy, in one process: each start imports the package."""
    command = [sys.executable, "-c", DOCS_THEN_TESTS, "-n", "0", "-q", *tests]
    found = subprocess.run(command, cwd=tree, env={"PYTHONPATH": str(tree)}, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout[-4000:] + found.stderr[-4000:]


def changed(tree: Path) -> set[str]:
    """The files of the copy that differ from those of the repository, or are new."""
    files = (path for name in COPIED for path in [tree / name, *(tree / name).rglob("*")] if path.is_file())
    names = {str(path.relative_to(tree)) for path in files if not {"__pycache__", ".pytest_cache"} & set(path.parts)}
    return {name for name in names if not (ROOT / name).is_file() or not filecmp.cmp(ROOT / name, tree / name)}


def test_a_rule_and_a_format(tree: Path) -> None:
    """Of unlike kinds, in one copy: no file of one has to do with the other."""
    own, reader = add_example(tree, "add-a-rule.md"), add_example(tree, "add-a-format.md")
    golden = (
        "tests/golden/test_golden.py::test_answers_are_the_expected_ones[synthetic_gpu.worker0.1795200788815973544]"
    )
    documented = "tests/test_documented.py::test_every_rule_of_steps_has_its_section"
    run(
        tree, "tests/rules/test_printing.py", "tests/rules/test_declarations.py", "tests/test_generated_docs.py",
        "tests/views/test_findings_view.py", documented, golden, reader[2], "tests/service/test_claims.py",
    )  # fmt: skip
    assert changed(tree) == {*own, *reader, "docs/reference/metrics.md", "docs/reference/rules.md"}
    assert len(own) == len(reader) == 3


def test_a_view(tree: Path) -> None:
    own = add_example(tree, "add-a-view.md")
    of_views = sampled(((), ("-k", "not test_routes or view")), [("-k", "not test_routes or view")])[0]
    run(tree, own[1], "tests/test_generated_docs.py", "tests/web/test_routes.py", *of_views)
    assert changed(tree) == {*own, "docs/reference/http.md"}
    assert len(own) == 2
