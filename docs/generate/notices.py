"""Notices: ids of findings and data notices that the page of rules lacks."""

from __future__ import annotations

import re
from pathlib import Path

import tb_plugin
from docs.generate.rules import checks
from tb_plugin.extensions import BUNDLED
from tb_plugin.rules import rule_ids
from tb_plugin.views import memory
from tb_plugin.views.allocations import findings as snapshots

_ID = re.compile(r'(?:rule=|\bNotice\(\s*|_notice\(\s*)"([a-z_]+)"')
_HEAD = """# Notices

Ids (`rule`) of `findings` and `data_notices` in reports, by folder of the code.
[Rules](rules.md) have their own page."""


def ids() -> dict[str, set[str]]:
    """Returns the ids of notices by folder. Only ids that are literals in the code are found."""
    package = Path(tb_plugin.__file__).parent
    folders = [
        *(package / name for name in ("analysis", "rules", "views")),
        *(package.parent / name for name in BUNDLED),
    ]
    found: dict[str, set[str]] = {}
    rules = {*rule_ids(), *(check.id for views in (memory, snapshots) for check in checks(views))}
    for path in sorted(path for folder in folders for path in folder.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts[0 if BUNDLED[0] in path.parts else 1 :]
        section = "rules" if parts[0] == "rules" else parts[1]
        found.setdefault(section, set()).update(set(_ID.findall(path.read_text(encoding="utf-8"))) - rules)
    return {section: names for section, names in sorted(found.items()) if names}


def page() -> str:
    """Returns the page."""
    lines = [f"- {section}: {', '.join(f'`{name}`' for name in sorted(names))}" for section, names in ids().items()]
    return "\n".join([_HEAD, "", *lines])
