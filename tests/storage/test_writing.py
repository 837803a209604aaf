"""Writing into a log directory: whole files, and nothing beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tb_plugin.errors import StorageError
from tb_plugin.storage.files import Folder


def test_a_file_is_written_whole_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path))
    for content in (b"first", b"second"):
        folder.write("run/a.json.ttsummary", content)
        assert (tmp_path / "run/a.json.ttsummary").read_bytes() == content
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["a.json.ttsummary"]


@pytest.mark.parametrize("path", ["../a", "run/../../a", "/a", "run\\..\\..\\a", "C:/a", "C:a", "\\a"])
def test_an_object_of_any_name_is_written_below_the_directory_or_nowhere(tmp_path: Path, path: str) -> None:
    below = tmp_path / "below"
    below.mkdir()
    with pytest.raises(StorageError, match="leads out"):
        Folder(str(below)).write(path, b"content")
    assert [*tmp_path.rglob("*")] == [below]


def test_a_name_as_long_as_file_systems_take(tmp_path: Path) -> None:
    name = "轨" * 85  # 255 bytes
    (tmp_path / name).touch()
    Folder(str(tmp_path)).write(name, b"1")
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [(name, b"1")]
