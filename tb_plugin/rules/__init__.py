"""Rules, one module each, found by module name."""

from __future__ import annotations

import importlib
from functools import cache
from typing import TYPE_CHECKING

from tb_plugin.lib.lazy import public_modules

if TYPE_CHECKING:
    from tb_plugin.rules._base import Rule


@cache
def rule_ids() -> tuple[str, ...]:
    """Returns the ids of all rules in alphabetical order. Does not import the rules."""
    return tuple(public_modules(__path__[0]))


@cache
def all_rules() -> tuple[Rule, ...]:
    """Imports all rule modules and returns the rules in order of precedence."""
    rules: list[Rule] = [importlib.import_module(f"{__name__}.{name}").RULE for name in rule_ids()]
    return tuple(sorted(rules, key=lambda rule: (rule.order, rule.id)))


@cache
def regular_rules() -> tuple[Rule, ...]:
    """Returns all rules except fallback rules, which run only if other findings explain too little of the lost time."""
    return tuple(rule for rule in all_rules() if not rule.is_fallback)
