"""The second stage of the repair by itself: what it walks through, and where it gives up."""

from __future__ import annotations

import json

import pytest

from tb_plugin.formats._chrome.repair import walk

DEEPEST = 64
"""Objects and lists inside each other, the outermost not counted."""


@pytest.mark.parametrize(("opening", "closing"), [('{"a": ', "}"), ("[", "]")], ids=["objects", "lists"])
@pytest.mark.parametrize(("below", "walks"), [(DEEPEST - 1, True), (DEEPEST, False)])
def test_it_goes_down_to_a_bound(opening: str, closing: str, below: int, walks: bool) -> None:
    nested = '{"top": ' + opening * below + "1" + closing * below + "}"
    found = walk(nested)
    assert (found is not None) is walks
    if found is not None:
        assert json.loads(found.text) == json.loads(nested) and not found.reasons
