"""Parts of sentences: numbers with nouns, and links."""

from __future__ import annotations

import re

from tb_plugin.model.trace.recorder import Recorder
from tb_plugin.payloads import Reference

# Sentence and advice about numbers of a truncated or damaged file.
INCOMPLETE = "The file is incomplete: steps and device work may be missing."
RECORD_AGAIN = "Wait until the job has written the whole file, or record again."


def references_of(recorder: Recorder, finding: str) -> list[Reference]:
    """Returns links to documentation that explains a finding."""
    return [Reference(title, url) for title, url in recorder.references(finding)]


def plural(count: float, one: str, many: str = "") -> str:
    """Returns the singular or plural form of a noun for a number."""
    return one if count == 1 else many or f"{one}s"


def count_with_noun(count: int, one: str, many: str = "") -> str:
    """Formats a number with its noun: ``1 segment``, ``2,148 segments``."""
    return f"{count:,} {plural(count, one, many)}"


_DEVICE = re.compile(r"(?<![\w.{(=/_-])((?:[Aa]|an) )?([Dd]evice)(s?)(?![\w}=(_-]|\.\w)")
_HOST = re.compile(r"(?<![\w.{(=/_-])[Hh]ost(?![\w}=(_-]|\.\w)")


def vendor_words(text: str, device: str) -> str:
    """Replaces the neutral words host and device in a sentence: by ``CPU``, and by ``device``, such as ``GPU``.

    Code and placeholders keep them: ``.to(device)``, ``{device}``, ``device=...``.
    """
    text = _HOST.sub("CPU", text)
    if device.lower() == "device":
        return text

    def word(found: re.Match[str]) -> str:
        article = found[1] or ""
        if article:
            article = ("A" if article[0] == "A" else "a") + ("n " if device[:1] in "AEIOUNX" else " ")
        return article + device + found[3]

    return _DEVICE.sub(word, text)


def capitalized(words: str) -> str:
    """Converts the first letter to a capital letter. Other letters stay as they are."""
    return words[:1].upper() + words[1:]
