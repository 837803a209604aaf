"""Stack files: folded text (many tools) and speedscope's JSON."""

from __future__ import annotations

import re

from tb_plugin.formats.base import each_file
from tb_plugin.formats.format_entry import FormatEntry
from tb_plugin.formats.stack_files.filenames import ENDINGS, READER_ID, candidate_of

LOOKS_JSON = re.compile(rb"\A(?:\xef\xbb\xbf)?[ \t\r\n]{0,64}\{")


def _sniff(head: bytes) -> bool:
    from tb_plugin.formats.stack_files.folded import is_folded
    from tb_plugin.formats.stack_files.nodes import is_by_node
    from tb_plugin.formats.stack_files.speedscope import SCHEMA

    if LOOKS_JSON.match(head):
        return SCHEMA.search(head) is not None or is_by_node(head)
    return is_folded(head)


FORMATS = (
    FormatEntry(
        __name__,
        READER_ID,
        "Stack file",
        order=110,
        raw="tb_plugin.model.stack_profile:StackProfile",
        endings=ENDINGS,
        find=each_file(candidate_of),
        sniff=_sniff,
    ),
)
