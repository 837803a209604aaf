"""Which files are candidates, and what their names say."""

from __future__ import annotations

import pytest

from tb_plugin.readers.base import ListedFile
from tb_plugin.readers.kineto import KinetoReader


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("worker0.1623143089861.pt.trace.json", ("", "worker0", "1623143089861", True)),
        ("run/a/host_12.1623143089861000000.pt.trace.json.gz", ("run/a", "host_12", "1623143089861000000", True)),
        ("w.1.2.pt.trace.json", ("", "w.1", "2", True)),
        ("r/worker0.pt.trace.json", ("r", "worker0", None, True)),
        (".pt.trace.json", ("", "", None, True)),
        ("r/trace.json.gz", ("r", "trace", None, False)),
        ("r/config.json", ("r", "config", None, False)),
    ],
)
def test_names(path, expected):
    (candidate,) = KinetoReader().find([ListedFile(path, 1, "f")])
    assert (candidate.run, candidate.worker, candidate.span, candidate.certain) == expected
    assert candidate.names == (path,)


def test_compressed_and_plain_twins_are_both_kept():
    listing = [ListedFile(f"w.1.pt.trace.json{end}", 1, "f") for end in ("", ".gz")]
    assert len(KinetoReader().find(listing)) == 2


@pytest.mark.parametrize("path", ["a.txt", "w.1.pt.trace.json.tmp", "events.out.tfevents.1", "json", "a.json.zip"])
def test_other_files(path):
    assert KinetoReader().find([ListedFile(path, 1, "f")]) == []
