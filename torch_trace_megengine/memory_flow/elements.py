"""SVG elements, parsed without loading external content.

MegEngine does not escape anything, so a scope named ``a & b`` or ``x<y`` makes the XML invalid. This parser escapes
such names. If a rectangle is still invalid, it is skipped and counted, and parsing continues after it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from xml.parsers import expat

from tb_plugin.errors import UnreadableTrace
from tb_plugin.formats.issues import IssueLog
from tb_plugin.formats.stream import TextStream

MARK = b"<rect"
NAME = b'tag:name="'  # its value may be any text, because users name scopes
MAX_BUFFERED = 1024 * 1024  # maximum text between two starts of rectangles; real rectangles are much smaller
# text parsed first when parsing resumes after damage
PROLOG = b'<svg xmlns="http://www.w3.org/2000/svg" xmlns:tag="https://megengine.org.cn">'

MOST_DEEP = 64  # nesting depth of elements; a real drawing has two levels

_SOUND = re.compile(rb'<rect(?:\s+[A-Za-z:]+\s*=\s*"[^"<&]*")*\s*/?>')
_BEGIN = re.compile(rb'\s[A-Za-z]+(?::[A-Za-z]+)?="')
_BARE = re.compile(rb"&(?!(?:amp|lt|gt|quot|apos|#\d{1,7}|#x[0-9A-Fa-f]{1,6});)")
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_RAW = "names with unescaped &, < or quotes were read as written"
_LEAVE = "Remove the file from the log directory."


class Elements:
    """Parser that calls ``on_element`` with the name and the attributes of each element."""

    def __init__(self, on_element: Callable[[str, dict[str, str]], None], log: IssueLog) -> None:
        self.is_closed = False  # the root element has ended
        self._on_element = on_element
        self._log = log
        self._depth = 0
        self._fed = 0  # bytes passed to the parser
        self._has_trailing_text = False  # the root element is followed by other text
        self._parser = self._new_parser()

    def read(self, stream: TextStream, chunk_bytes: int) -> None:
        """Parses the whole stream. Raises UnreadableTrace, and any error that the stream raises."""
        pending, skips = b"", False
        while text := stream.read(chunk_bytes):
            pending += text
            if skips:
                begin = pending.find(MARK, 1)
                skips = begin < 0
                pending = pending[-len(MARK) :] if skips else pending[begin:]
            cut = pending.rfind(MARK)
            if cut > 0:
                self._take(pending[:cut], stream.text_bytes - len(pending))
                pending = pending[cut:]
            if len(pending) > MAX_BUFFERED:
                self._log.add("event_too_large", "dropped")
                pending, skips = pending[-len(MARK) :], True
        if not skips:
            self._take(pending, stream.text_bytes - len(pending))
        if not self.is_closed:
            self._log.note("truncated_tail", "the file is truncated inside the drawing")

    def _take(self, text: bytes, offset: int) -> None:
        text = self._repaired(text)
        while text:
            if self.is_closed:
                if text.strip() and not self._has_trailing_text:
                    self._log.note("trailing_text", "text after the drawing was ignored")
                self._has_trailing_text |= bool(text.strip())
                return
            try:
                self._parser.Parse(text, False)
                self._fed += len(text)
                return
            except expat.ExpatError as error:
                place = self._parser.ErrorByteIndex - self._fed
                if not self.is_closed:
                    self._damaged(text, place, offset, expat.errors.messages.get(error.code, "not well-formed"))
                    self._parser = self._resumed()
                follows = max(place, 0) if self.is_closed else text.find(MARK, max(place + 1, 0))
                text, offset = (text[follows:], offset + follows) if follows >= 0 else (b"", offset)

    def _damaged(self, text: bytes, place: int, offset: int, why: str) -> None:
        begin = max(text.rfind(MARK, 0, max(place, 0) + 1), 0)
        excerpt = text[begin : begin + 120].decode("utf-8", "replace")
        self._log.add(
            "bad_element", "dropped", offset + max(place, 0), excerpt, text=f"text that is not XML was skipped ({why})"
        )

    def _new_parser(self) -> expat.XMLParserType:
        self._depth = self._fed = 0
        parser = expat.ParserCreate("UTF-8")
        parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
        parser.StartDoctypeDeclHandler = self._doctype
        parser.EntityDeclHandler = self._refuse
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        return parser

    def _resumed(self) -> expat.XMLParserType:
        parser = self._new_parser()
        parser.StartElementHandler = None
        parser.Parse(PROLOG, False)
        parser.StartElementHandler = self._start
        self._depth, self._fed = 1, len(PROLOG)
        return parser

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > MOST_DEEP:
            raise UnreadableTrace("The elements are nested too deeply; no profiler writes such a file.", do=_LEAVE)
        self._on_element(name, attributes)

    def _end(self, _: str) -> None:
        self._depth -= 1
        self.is_closed = self._depth == 0

    def _doctype(self, _: str, system: str | None, public: str | None, has_own: bool) -> None:
        """Ignores the standard doctype of SVG. It refers to a W3C file, which is never loaded."""
        if has_own:
            self._refuse()

    def _refuse(self, *_: object) -> None:
        raise UnreadableTrace("The file declares XML entities or types, which no profiler writes.", do=_LEAVE)

    def _repaired(self, text: bytes) -> bytes:
        if _CONTROL.search(text):
            text, count = _CONTROL.subn(b"?", text)
            self._log.add("control_character", "repaired", count=count, text="control characters were replaced by ?")
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
    """Escapes the names in a rectangle. A name ends at the last quote before the next attribute."""
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
