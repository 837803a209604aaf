"""Notices: ids of findings and data notices that are not rules of steps."""

from __future__ import annotations

import re
from pathlib import Path

import tb_plugin
from tb_plugin.rules import RULES

_ID = re.compile(r'(?:rule=|\bNotice\(\s*|_notice\(\s*)"([a-z_]+)"')
_HEAD = """# Notices

Ids (`rule`) of `findings` and `data_notices` in reports, by folder of the code.
[Rules](rules.md) of steps have their own page; [concepts](../concepts/time.md) explain thresholds."""


def ids() -> dict[str, set[str]]:
    """Returns the ids by folder: those that are literals in the code."""
    package = Path(tb_plugin.__file__).parent
    found: dict[str, set[str]] = {}
    rules = {rule.id for rule in RULES}
    for path in sorted(path for name in ("analysis", "rules", "views") for path in (package / name).rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        section = "rules" if parts[0] == "rules" else parts[1]
        found.setdefault(section, set()).update(set(_ID.findall(path.read_text(encoding="utf-8"))) - rules)
    return {section: names for section, names in sorted(found.items()) if names}


def page() -> str:
    """Returns the page."""
    lines = [f"- {section}: {', '.join(f'`{name}`' for name in sorted(names))}" for section, names in ids().items()]
    return "\n".join([_HEAD, "", *lines])
