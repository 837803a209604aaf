"""The pure parts of ``make bench-ranks``: what is invented, how summaries are compared, and where the section stands."""

from __future__ import annotations

from pathlib import Path

from benchmarks import ranks
from tests.synthetic_job import main


def test_its_section_is_replaced_and_the_others_stay() -> None:
    document = "# Title\n\nIntro.\n\n## 1 May, other\n\nkept\n"
    once = ranks.placed(document, "## 2 May, a run of many ranks\n\nold\n")
    twice = ranks.placed(once, "## 3 May, a run of many ranks\n\nnew\n")
    assert twice == "# Title\n\nIntro.\n\n## 3 May, a run of many ranks\n\nnew\n\n## 1 May, other\n\nkept\n"
    assert "old" in once and once.count("kept") == 1


def test_summaries_are_the_same_where_names_and_bytes_are(tmp_path: Path) -> None:
    for folder, body in (("a", b"1"), ("b", b"1"), ("c", b"2")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "rank0").write_bytes(body)
    assert ranks._same(tmp_path / "a", tmp_path / "b") and not ranks._same(tmp_path / "a", tmp_path / "c")
    (tmp_path / "b" / "rank1").write_bytes(b"1")
    assert not ranks._same(tmp_path / "a", tmp_path / "b")


def test_a_step_of_the_invented_ranks_has_the_events_that_are_said(tmp_path: Path) -> None:
    main([str(tmp_path), "--ranks", "16", "--steps", "2", "--only", "3", "--plain", *ranks.LIKE])
    (path,) = tmp_path.iterdir()
    text = path.read_text()
    assert abs(text.count('"ph": ') / 2 - ranks.EVENTS_A_STEP) < 10
    assert "ncclKernel_AllReduce" in text and "ncclDevKernel" not in text
