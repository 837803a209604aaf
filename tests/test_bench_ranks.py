"""The pure parts of ``make bench-ranks``: what is invented, how summaries are compared, the section and its place."""

from __future__ import annotations

from pathlib import Path

from benchmarks import ranks
from benchmarks.measure import Cost
from tests.synthetic_job import main


def cost(cpu_s: float) -> Cost:
    return Cost(cpu_s, 2 * cpu_s, 100_000_000, 200_000_000, "")


def results() -> list[ranks.Result]:
    page = ranks.Page(
        0.5, 900.0, 0.8, 40.0, (60.0, "steps"), (250_000, "view/distributed"), 500_000_000, 400_000_000, ["straggler"]
    )
    small = {ranks.ONE: [cost(3.0), cost(9.0), cost(6.0)], ranks.PEER: [cost(30.0)]}
    large = {ranks.ONE: [cost(26.4)]}
    return [
        ranks.Result(64, 20_000, 24_000_000, 1.0, small, {}, "21", "16, 17", 640_000, True, {"nothing": page}),
        ranks.Result(256, 20_000, 96_000_000, 4.0, large, {ranks.PEER: "not done within the time limit"}, "85"),
    ]


def test_the_section_says_what_each_rank_costs_and_how_it_grows() -> None:
    text = ranks.section("1 May 2027, a run of many ranks", results())
    assert "| 64 x 20,000 | 24 | one process | 6.0 | 94 | 12.0 | 100 | 200 |" in text
    assert "| 256 x 20,000 | 96 | HTA | not done within the time limit |" in text
    assert "From 64 to 256 ranks (4 times) CPU grows: one process 4.40." in text
    assert "HTA names 16, 17 at 64 ranks, where 21 is slow." in text
    figures = "10.0 | yes | 0.50 | 900 | 0.80 | 40 | 60 (steps) | 250 (view/distributed) | 500 | 400"
    assert f"| 64 | nothing | {figures} | straggler |" in text


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
