"""Repair of damaged JSON: one event, or the metadata.

There are two stages, which both take linear time. The first stage assumes that each string ends at its next quote.
It fixes control characters, backslashes, lone surrogates, and N/A or NaN outside strings. The second stage fixes
missing and unescaped quotes. It parses the grammar, and uses the text after a quote to decide whether the quote
ends a string.
"""

from __future__ import annotations

import json
import re

import msgspec

MAX_MEND_BYTES = (
    4 << 20
)  # longer text is skipped, because malicious text could take hundreds of times its size in memory
MAX_WALK_CHARS = 1 << 20  # limit for the second stage, which is slow; real events are shorter
_MAX_DEPTH = 64

# A string, an unclosed string up to the end of the text (for linear time), or a bare word used as a value.
_TOKEN = re.compile(
    r'"(?P<string>[^"\\]*+(?:\\.[^"\\]*+)*+)"|"[\s\S]*|(?P<word>-?\b(?:nan|inf(?:inity)?|none|undefined|true|false|null|N/A)\b)',
    re.DOTALL | re.IGNORECASE,
)
_WORDS = {"true": "true", "false": "false", "null": "null"}
_CONTROL = re.compile(r"[\x00-\x1f]")
_ESCAPE = re.compile(r'\\(?:u[0-9a-fA-F]{4}|["\\/bfnrt])|\\', re.DOTALL)
_SURROGATE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
    r"|\\[^u]|\\u"
)


class Repaired(msgspec.Struct):
    """Text that should now be valid JSON, and the repairs made (codes of issues.TEXTS)."""

    text: str
    reasons: set[str] = msgspec.field(default_factory=set)


def decode_text(raw: bytes) -> Repaired:
    try:
        return Repaired(raw.decode("utf-8"))
    except UnicodeDecodeError:
        return Repaired(raw.decode("utf-8", "replace"), {"bad_utf8"})


def mend_tokens(text: str) -> Repaired:
    """Repairs strings, words and numbers (first stage)."""
    reasons: set[str] = set()

    def mend(match: re.Match[str]) -> str:
        word = match["word"]
        if word is not None:
            known = _WORDS.get(word)
            if known is None:
                reasons.add("bare_word")
            return known or ("null" if word.lower() not in _WORDS else word.lower())
        if match["string"] is None:
            return match[0]
        return f'"{mend_string(match["string"], reasons)}"'

    return Repaired(_TOKEN.sub(mend, text), reasons)


def mend_string(inside: str, reasons: set[str]) -> str:
    """Repairs the text between two quotes. Adds the codes of the repairs to ``reasons``."""
    if "\\" in inside:
        inside = _mend_backslashes(inside, reasons)
    if _CONTROL.search(inside):
        reasons.add("control_character")
        inside = _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", inside)
    return inside


def _mend_backslashes(inside: str, reasons: set[str]) -> str:
    if any(match[0] == "\\" for match in _ESCAPE.finditer(inside)):
        # One invalid escape proves that the writer does not escape backslashes: in C:\temp\Users, \t is as raw as \U.
        # Double backslashes and escaped quotes are kept, because raw paths do not contain them.
        reasons.add("bad_escape")
        return re.sub(r'\\(["\\])|\\', lambda match: match[0] if match[1] else "\\\\", inside)

    def replaced(match: re.Match[str]) -> str:
        if match["half"]:
            reasons.add("lone_surrogate")
            return "\\ufffd"
        return match[0]

    return _SURROGATE.sub(replaced, inside)


# Kineto since 2024 writes one key per line, so the last quote of the name's line ends the name. Older releases put more
# keys on that line.
_NAME_LINE = re.compile(r'^(\s*"name"\s*:\s*")(.*)("\s*,?[ \t\r]*)$', re.MULTILINE)
_FURTHER_KEY = re.compile(r'"\s*,\s*"(?:ph|cat|pid|tid|ts|dur|args|id|s|bp)"\s*:')


def mend_name_line(text: str) -> Repaired | None:
    """Escapes quotes inside a name, if the name has a line of its own. Returns None if nothing was escaped."""
    line = _NAME_LINE.search(text)
    if line is None or '"' not in line[2] or _FURTHER_KEY.search(line[2]):
        return None
    reasons: set[str] = set()
    name = _escape_quotes(line[2], reasons)
    if not reasons:
        return None
    rest = mend_tokens(text[: line.start(2)] + name + text[line.end(2) :])
    return Repaired(rest.text, rest.reasons | reasons)


def _escape_quotes(inside: str, reasons: set[str]) -> str:
    mended = re.sub(r'(\\.)|"', lambda match: match[1] or '\\"', inside, flags=re.DOTALL)
    if mended != inside:
        reasons.add("raw_quote")
    return mended


def walk(text: str) -> Repaired | None:
    """Repairs quotes by parsing the grammar (second stage). Returns None if the text is not an object."""
    if len(text) > MAX_WALK_CHARS:
        return None
    try:
        walker = _Walker(text)
        walker.value(in_array=False, depth=0)
        walker.end()
    except _NotJson:
        return None
    return Repaired("".join(walker.pieces), walker.reasons)


class _NotJson(Exception):
    pass


_SPACE = re.compile(r"\s*")
_KEY_END = re.compile(r'"\s*:')
# A quote ends the value of a member if a key or the end of its object follows. It ends an array element if another
# value or the end of the array follows. The length of the key is limited, for linear time. Quantifiers are possessive,
# to avoid backtracking between adjacent runs of spaces.
_VALUE_END = re.compile(r'"(?=\s*+(?:,\s*+"?[^"\n,{}\[\]]{1,80}+"\s*+:|(?:,\s*+)?\}\s*+(?:[,}\]]|\Z)))')
_ELEMENT_END = re.compile(r'"(?=\s*+(?:,\s*+["\d\[{\-]|(?:,\s*+)?\]\s*+(?:[,}\]]|\Z)))')
_EVENT_START = re.compile(r'\{\s*"ph"\s*:\s*"')
_BARE_KEY = re.compile(r'([A-Za-z_][\w .%]{0,80})"\s*:')
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?=[\s,\]}]|$)")
_ODD_NUMBER = re.compile(r"[+-]?[\d.]+(?:[eE][+-]?\d+)?(?=[\s,\]}]|$)")
_WORD = re.compile(r"-?(?:[A-Za-z]{1,10}|N/A)(?=[\s,\]}]|$)")


class _Walker:
    def __init__(self, text: str) -> None:
        self.pieces: list[str] = []
        self.reasons: set[str] = set()
        self._text = text
        self._at = 0

    def value(self, in_array: bool, depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise _NotJson
        start = self._peek()
        if start == "{":
            self._members(depth)
        elif start == "[":
            self._elements(depth)
        elif start == '"':
            self._string(_ELEMENT_END if in_array else _VALUE_END)
        else:
            self._scalar()

    def end(self) -> None:
        if self._peek():
            raise _NotJson

    def _peek(self) -> str:
        self._at = _SPACE.match(self._text, self._at).end()  # type: ignore[union-attr]  # \s* always matches
        return self._text[self._at : self._at + 1]

    def _put(self, text: str, consumed: int) -> None:
        self.pieces.append(text)
        self._at += consumed

    def _separated(self, closing: str, first: bool) -> bool:
        """Consumes the separator before a member or element. Returns False if the container ends instead."""
        commas = 0
        while self._peek() == ",":
            self._at += 1
            commas += 1
        if self._peek() == closing:
            if commas:
                self.reasons.add("trailing_comma")
            self._put(closing, 1)
            return False
        if (first and commas) or commas > 1:
            self.reasons.add("trailing_comma")
        if not first:
            if not commas:
                raise _NotJson
            self.pieces.append(", ")
        return True

    def _members(self, depth: int) -> None:
        self._put("{", 1)
        first = True
        while self._separated("}", first):
            first = False
            self._key()
            self.value(in_array=False, depth=depth + 1)

    def _elements(self, depth: int) -> None:
        self._put("[", 1)
        first = True
        while self._separated("]", first):
            first = False
            self.value(in_array=True, depth=depth + 1)

    def _key(self) -> None:
        if self._peek() == '"':
            self._string(_KEY_END)
            if self._peek() != ":":
                raise _NotJson
            self._put(": ", 1)
            return
        bare = _BARE_KEY.match(self._text, self._at)
        if bare is None:
            raise _NotJson
        self.reasons.add("missing_quote")
        self._put(f'"{bare[1]}": ', bare.end() - self._at)

    def _string(self, ending: re.Pattern[str]) -> None:
        start = self._at + 1
        found = ending.search(self._text, start)
        if found is None:
            raise _NotJson
        inside = self._text[start : found.start()]
        if _EVENT_START.search(inside):
            raise _NotJson  # these are two interleaved events, not a name with quotes
        if '"' in inside:
            inside = _escape_quotes(inside, self.reasons)
        if re.search(r"(?<!\\)(?:\\\\)*\\$", inside):  # a raw backslash before the closing quote
            self.reasons.add("bad_escape")
            inside += "\\"
        self._put(f'"{mend_string(inside, self.reasons)}"', found.start() + 1 - self._at)

    def _scalar(self) -> None:
        for pattern in (_NUMBER, _ODD_NUMBER, _WORD):
            found = pattern.match(self._text, self._at)
            if found is None:
                continue
            self._put(self._plain(pattern, found[0]), len(found[0]))
            return
        raise _NotJson

    def _plain(self, pattern: re.Pattern[str], text: str) -> str:
        if pattern is _NUMBER:
            return text
        if pattern is _ODD_NUMBER:
            self.reasons.add("odd_number")
            try:
                return json.dumps(float(text))
            except ValueError:
                raise _NotJson from None
        if text not in _WORDS:
            self.reasons.add("bare_word")
        return _WORDS.get(text.lower(), "null")
