"""Rules that the user or the log directory dismisses."""

from __future__ import annotations

import msgspec

from tb_plugin.analysis.base import Params
from tb_plugin.analysis.metrics import Metrics, define
from tb_plugin.payloads import Notice
from tb_plugin.rules import rule_ids

METRICS = Metrics(define("", "text", {"ignored_rules": ("Names", "Unknown rule ids in ``torch_trace_ignore``.")}))


class LeftOut(msgspec.Struct, frozen=True):
    """Ids of rules to skip. The ids in ``ignored`` come from the log directory; some of them may be unknown."""

    dismissed: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()

    def __contains__(self, rule: str) -> bool:
        return rule in self.dismissed or rule in self.ignored


def left_out(params: Params) -> LeftOut:
    """Returns the rules to skip: the comma-separated ids in the query parameter ``without``, and the ids in the log
    directory's list.
    """
    named = {rule for text in params.values("without") for rule in text.split(",")}
    return LeftOut(tuple(sorted(named & set(rule_ids()))), params.ignored)


def unknown_notices(out: LeftOut) -> list[Notice]:
    """Returns a notice if the log directory's list of ignored rules contains unknown ids."""
    unknown = [rule for rule in out.ignored if rule not in rule_ids()]
    if not unknown:
        return []
    return [
        Notice(
            rule="ignored_unknown",
            severity="low",
            text="The file torch_trace_ignore contains unknown rule ids: {ignored_rules}.",
            todo="Correct these ids. docs/reference/rules.md lists all rule ids.",
            figures=METRICS.measured(ignored_rules=", ".join(unknown)),
        )
    ]
