"""Docs in plain English: short sentences with a subject, in the words of the glossary.

``python -m tests.test_prose [FILE ...]`` lists what breaks the rules.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    *(path for path in sorted((ROOT / "docs").rglob("*.md")) if "reference" not in path.parts),
]
"""All but docs/reference, which is generated from texts that other tests look at."""
MAX_WORDS = 25
STARTS = re.compile(r"(Of|What|Where|Whom|So many)\b")
BANNED = re.compile(
    r"\b(mend(s|ed|ing)?|stated|states that|told|is said|are said|kept|held|at hand|absent|nothing to do|input wait"
    r"|waiting for input|nothing hides|whom|starved|outermost|tied|whole trace|passed over|left out|ends early"
    r"|cut off|[mnµ]?s (a|of each) step|bytes a step|beg[iau]ns?|beginning|finish(es|ed)?|in sight|worth a word"
    r"|by much|trainings|an? training(?! (run|job|step|loop|script|process|program|set))|meetings?)\b"
)
"""Words of the right column of the glossary that are wrong in any sentence."""
FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
END = re.compile(r"(?<!\be\.g)(?<!\bvs)(?<=[.!?])[)*_\"]*\s+(?=[A-Z0-9*_`\[(])")


def sentences(text: str) -> Iterator[str]:
    """Sentences of paragraphs, items, headings and cells; code counts as one word, and so does a link's target."""
    text = re.sub(r"<!--.*?-->", "", FENCE.sub("\n", text), flags=re.DOTALL)
    text = re.sub(r"``.+?``|`[^`]*`", "`code`", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    blocks: list[str] = []
    is_open = False
    for line in text.splitlines():
        if line.startswith("|"):
            blocks += line.strip("|").split("|")
            is_open = False
        elif not line.strip() or line.startswith("#") or re.match(r"\s*([-*]|\d+\.) ", line):
            blocks.append(re.sub(r"^\s*(#+|[-*]|\d+\.) ", "", line))
            is_open = bool(line.strip()) and not line.startswith("#")
        elif is_open:
            blocks[-1] += " " + line.strip()
        else:
            blocks.append(line)
            is_open = True
    for block in blocks:
        yield from (part.strip(" *_") for part in END.split(block) if part.strip(" *_"))


def faults(text: str) -> list[str]:
    """Sentences that break a rule, each with the rule."""
    found = []
    for sentence in sentences(text):
        words = re.findall(r"[\w`'’.,%/+-]*\w[\w`'’.,%/+-]*", sentence)
        if len(words) > MAX_WORDS:
            found.append(f"{len(words)} words: {sentence}")
        if STARTS.match(sentence) and not sentence.endswith("?"):
            found.append(f"start: {sentence}")
        if word := BANNED.search(sentence):
            found.append(f"“{word[0]}”: {sentence}")
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_docs_are_plain(page: Path) -> None:
    assert faults(page.read_text(encoding="utf-8")) == []


def test_the_rules_find_what_they_are_about() -> None:
    assert faults("The GPU is idle for 462 ms.\n\n| `a` | One cell. |\n") == []
    assert faults("Of the ranks one is late.")[0].startswith("start")
    assert faults("What limits this program?") == []
    assert faults("One rank is " + "very " * 25 + "late.")[0].startswith("29 words")
    assert faults("The device has nothing to do.")[0].startswith("“nothing to do”")
    assert faults("The training script writes `what was kept`.\n\n```\nkept\n```\n") == []


if __name__ == "__main__":
    for path in [Path(name).resolve() for name in sys.argv[1:]] or PAGES:
        for fault in faults(path.read_text(encoding="utf-8")):
            print(f"{path.relative_to(ROOT)}: {fault}")
