"""Docs fail like code: every setting, view, metric and command is documented, and links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tb_plugin import registry
from tb_plugin.settings import SETTINGS
from tests.metrics import ALL

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("samples/*.md"), *ROOT.glob("benchmarks/*.md")]
)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"```.*?```", re.DOTALL)


def text_of(page: str) -> str:
    return (ROOT / "docs" / page).read_text(encoding="utf-8")


def test_every_setting_is_declared_once() -> None:
    """Names of settings are literals in settings.py alone: docs/reference/settings.md is made of them."""
    declared = {setting.name for setting in SETTINGS}
    assert len(declared) == len(SETTINGS) > 10
    for path in (ROOT / "tb_plugin").rglob("*.py"):
        if path.name != "settings.py" or path.parent.name != "tb_plugin":
            assert not re.findall(r'"TORCH_TRACE_[A-Z_]+"', path.read_text("utf-8")), path
    sources = [*(ROOT / "tb_plugin").rglob("*.py"), ROOT / "setup.py"]
    named = {name for path in sources for name in re.findall(r"\bTORCH_TRACE_[A-Z_]+\b", path.read_text("utf-8"))}
    assert named == declared


def test_every_variable_of_a_cloud_is_documented() -> None:
    sources = [ROOT / "tb_plugin" / "storage" / name for name in ("cloud_urls.py", "secrets.py")]
    names = {
        name for path in sources for name in re.findall(r"\b(?:AWS|S3|AZURE|GCE|STORAGE)_[A-Z_]+\b", path.read_text())
    }
    assert "S3_ENDPOINT" in names
    assert {
        name for name in names if f"`{name}`" not in text_of("cloud.md") and f"{name}=" not in text_of("cloud.md")
    } == set()


def test_every_view_is_documented() -> None:
    assert [view.id for view in registry.analyses() if not (view.http.payloads or view.http.tables)] == []


def test_every_metric_is_listed_once() -> None:
    keys = re.findall(r"^\|`(\w+)`\|", text_of("reference/metrics.md"), re.MULTILINE)
    assert sorted(keys) == sorted(ALL)


def test_concepts_and_metrics_are_short() -> None:
    pages = [*(ROOT / "docs" / "concepts").glob("*.md"), ROOT / "docs" / "reference" / "facts.md"]
    assert sum(len(page.read_text(encoding="utf-8").split()) for page in pages) <= 4_700
    metrics = re.findall(r"^\|`.*", text_of("reference/metrics.md"), re.MULTILINE)
    assert sum(len(each.split()) for each in metrics) <= 9 * len(metrics)


def test_every_make_target_of_the_docs_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = {name for page in PAGES for name in re.findall(r"`make ([a-z-]+)", page.read_text("utf-8"))}
    assert named - targets == set()


def anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", path.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_resolve(page: Path) -> None:
    broken = []
    for target in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        if not path.exists() or (anchor and path.suffix == ".md" and anchor not in anchors(path)):
            broken.append(target)
    assert broken == []


def test_what_security_promises_is_held_by_tests_that_exist() -> None:
    named = set(re.findall(r"`(tests/[a-z_/]+\.py)`", text_of("security.md")))
    assert len(named) > 10
    assert {name for name in named if not (ROOT / name).is_file()} == set()
    rows = [line for line in text_of("security.md").splitlines() if line.startswith("| ") and "---" not in line]
    assert [row for row in rows if "`tests/" not in row and not row.startswith("| promise")] == []


def test_the_readme_is_one_screen() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 60
    assert len((ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()) <= 72


def test_pictures_are_small_and_shown() -> None:
    texts = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    pictures = {path.name: path.stat().st_size for path in (ROOT / "docs" / "pictures").iterdir()}
    assert pictures and {name for name in pictures if f"pictures/{name})" not in texts} == set()
    assert max(pictures.values()) <= 150_000
