"""Elements out of the text of an SVG, as far as they can be told: nothing outside of the text is ever opened.

The writer escapes nothing: a scope named ``a & b`` or ``x<y`` makes text that is no XML. Such values are mended, a rectangle
that still cannot be told is left out and counted, and reading goes on behind it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from xml.parsers import expat

from tb_plugin.errors import UnreadableTrace
from tb_plugin.formats.issues import IssueLog
from tb_plugin.formats.stream import TextStream

MARK = b"<rect"
NAME = b'tag:name="'
"""The attribute that may hold anything: scopes are named by people."""
MAX_BUFFERED = 1024 * 1024
"""Text without the beginning of a rectangle: no rectangle is so large."""
PROLOG = b'<svg xmlns="http://www.w3.org/2000/svg" xmlns:tag="https://megengine.org.cn">'
"""Where reading goes on behind damage."""

MOST_DEEP = 64
"""Elements inside each other: a drawing has two."""

_SOUND = re.compile(rb'<rect(?:\s+[A-Za-z:]+\s*=\s*"[^"<&]*")*\s*/?>')
_BEGIN = re.compile(rb'\s[A-Za-z]+(?::[A-Za-z]+)?="')
_BARE = re.compile(rb"&(?!(?:amp|lt|gt|quot|apos|#\d{1,7}|#x[0-9A-Fa-f]{1,6});)")
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_RAW = "names with &, < or quotes, which the profiler does not escape, were read as they stand"
_LEAVE = "Leave it out of the log directory."


class Elements:
    """Tells ``told`` of each element: its name and attributes."""

    def __init__(self, told: Callable[[str, dict[str, str]], None], log: IssueLog) -> None:
        self.is_closed = False
        """The outermost element has ended."""
        self._told = told
        self._log = log
        self._depth = 0
        self._fed = 0
        """Bytes that the parser got."""
        self._goes_on = False
        """There is text behind the outermost element."""
        self._parser = self._new()

    def read(self, stream: TextStream, chunk_bytes: int) -> None:
        """Takes all of a stream. Raises UnreadableTrace, and what the stream raises."""
        held, skips = b"", False
        while text := stream.read(chunk_bytes):
            held += text
            if skips:
                begin = held.find(MARK, 1)
                skips = begin < 0
                held = held[-len(MARK) :] if skips else held[begin:]
            cut = held.rfind(MARK)
            if cut > 0:
                self._take(held[:cut], stream.text_bytes - len(held))
                held = held[cut:]
            if len(held) > MAX_BUFFERED:
                self._log.add("event_too_large", "dropped")
                held, skips = held[-len(MARK) :], True
        if not skips:
            self._take(held, stream.text_bytes - len(held))
        if not self.is_closed:
            self._log.note("truncated_tail", "the file ends inside its drawing")

    def _take(self, text: bytes, offset: int) -> None:
        """Parses a piece; behind a fault reading goes on at the next rectangle."""
        text = self._mended(text)
        while text:
            if self.is_closed:
                if text.strip() and not self._goes_on:
                    self._log.note("trailing_text", "text behind the drawing was ignored")
                self._goes_on |= bool(text.strip())
                return
            try:
                self._parser.Parse(text, False)
                self._fed += len(text)
                return
            except expat.ExpatError as error:
                place = self._parser.ErrorByteIndex - self._fed
                if not self.is_closed:
                    self._damaged(text, place, offset, expat.errors.messages.get(error.code, "not well-formed"))
                    self._parser = self._again()
                follows = max(place, 0) if self.is_closed else text.find(MARK, max(place + 1, 0))
                text, offset = (text[follows:], offset + follows) if follows >= 0 else (b"", offset)

    def _damaged(self, text: bytes, place: int, offset: int, why: str) -> None:
        begin = max(text.rfind(MARK, 0, max(place, 0) + 1), 0)
        excerpt = text[begin : begin + 120].decode("utf-8", "replace")
        self._log.add(
            "bad_element", "dropped", offset + max(place, 0), excerpt, text=f"text that is no XML was left out ({why})"
        )

    def _new(self) -> expat.XMLParserType:
        self._depth = self._fed = 0
        parser = expat.ParserCreate("UTF-8")
        parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
        parser.StartDoctypeDeclHandler = self._doctype
        parser.EntityDeclHandler = self._refuse
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        return parser

    def _again(self) -> expat.XMLParserType:
        """A parser inside of a drawing."""
        parser = self._new()
        parser.StartElementHandler = None
        parser.Parse(PROLOG, False)
        parser.StartElementHandler = self._start
        self._depth, self._fed = 1, len(PROLOG)
        return parser

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > MOST_DEEP:
            raise UnreadableTrace("Its elements lie too deep in each other: no profiler draws so.", do=_LEAVE)
        self._told(name, attributes)

    def _end(self, _: str) -> None:
        self._depth -= 1
        self.is_closed = self._depth == 0

    def _doctype(self, _: str, system: str | None, public: str | None, has_own: bool) -> None:
        """That of SVG names a file of the W3C, which nobody fetches."""
        if has_own:
            self._refuse()

    def _refuse(self, *_: object) -> None:
        raise UnreadableTrace("It declares entities or types of its own, which no profiler writes.", do=_LEAVE)

    def _mended(self, text: bytes) -> bytes:
        """The text with values escaped that are not, and without what no XML may hold."""
        if _CONTROL.search(text):
            text, count = _CONTROL.subn(b"?", text)
            self._log.add("control_character", "repaired", count=count, text="control characters became question marks")
        whole = text.decode("utf-8", "replace")
        if count := whole.count("\ufffd") - text.count("\ufffd".encode()):
            text = whole.encode()
            self._log.add("bad_utf8", "repaired", count=count)
        pieces = text.split(MARK)
        if max(map(len, pieces)) > MAX_BUFFERED:
            self._log.add("event_too_large", "dropped", count=sum(len(piece) > MAX_BUFFERED for piece in pieces))
            pieces = [pieces[0][-MAX_BUFFERED:], *(piece for piece in pieces[1:] if len(piece) <= MAX_BUFFERED)]
            text = MARK.join(pieces)
        if len(pieces) - 1 == len(_SOUND.findall(text)):
            return text
        for i, piece in enumerate(pieces[1:], 1):
            if not _SOUND.match(MARK + piece) and (escaped := _escaped(piece)) != piece:
                pieces[i] = escaped
                self._log.add("raw_markup", "repaired", example=piece[:120].decode("utf-8", "replace"), text=_RAW)
        return MARK.join(pieces)


def _escaped(piece: bytes) -> bytes:
    """A rectangle with its names escaped: each reaches to the last quote ahead of the next attribute."""
    begins = [match.span() for match in _BEGIN.finditer(piece)]
    if not begins:
        return piece
    parts = [piece[: begins[0][0]]]
    for (begin, value), following in zip(begins, [*(at for at, _ in begins[1:]), len(piece)], strict=True):
        text = piece[value:following]
        close = text.rfind(b'"')
        if close < 0:
            return piece
        if not piece[begin:value].endswith(NAME):
            parts.append(piece[begin:following])
            continue
        clean = _BARE.sub(b"&amp;", text[:close]).replace(b"<", b"&lt;").replace(b'"', b"&quot;")
        parts += [piece[begin:value], clean, text[close:]]
    return b"".join(parts)
