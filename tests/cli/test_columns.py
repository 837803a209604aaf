"""Tables of text fit their width: numbers stay whole, names lose their middle, differences stay visible."""

from __future__ import annotations

import pytest

from tb_plugin import cli
from tb_plugin.cli.columns import Heading, elide_texts, fit_table, size_of
from tests.service.fakes import write_trace

NAME, NUMBER, PROSE = (Heading(title, kind) for title, kind in (("name", "name"), ("ns", "number"), ("why", "prose")))


def test_what_fits_is_left_alone():
    table = fit_table([NAME, NUMBER], [("aten::mm", "12"), ("a", "3")], 80)
    assert (*table.heading, *table.lines) == (
        "name      ns",
        "────────  ──",
        "aten::mm  12",
        "a          3",
    )
    assert table.left_out == []


def test_a_long_name_loses_its_middle():
    assert elide_texts(["a" * 10 + "b" * 10], 9) == ["aaaa…bbbb"]
    assert elide_texts(["short"], 9) == ["short"]


def test_a_line_of_python_keeps_its_file_and_number():
    frame = "/home/u/rec15/scripts/rec_fr.py(7): w"
    assert [elide_texts([frame], width) for width in (40, 30, 20, 12)] == [
        [frame],
        ["rec15/scripts/rec_fr.py(7): w"],
        ["rec_fr.py(7): w"],
        ["rec_fr.py(7)"],
    ]
    assert elide_texts([frame], 8) == ["rec_…(7)"]
    both = elide_texts([frame, frame.replace("rec15", "rec16")], 20)
    assert len(set(both)) == 2 and max(map(size_of, both)) <= 20


def test_names_that_differ_in_the_middle_stay_different():
    names = [f"void kernel<{'x' * 40}, {kind}, {'y' * 40}>(int)" for kind in ("float", "double", "half")]
    short = elide_texts(names, 24)
    assert short == ["void k…float, yyyyyyyyy…", "void k…double, yyyyyyyy…", "void k…half, yyyyyyyyyy…"]
    assert max(map(size_of, short)) == 24


def test_names_that_differ_in_two_places():
    names = [f"{'k' * 30}{first}{'m' * 30}{second}{'e' * 30}" for first in "AB" for second in "CD"]
    assert len(set(elide_texts(names, 20))) == 4


def test_wide_characters_take_two_cells():
    assert (size_of("核函数"), size_of("e\u0301"), size_of("mm")) == (6, 1, 2)
    assert elide_texts(["核" * 10], 9) == ["核核…核核"]


def test_headings_break_between_words():
    table = fit_table([NAME, Heading("Device self [ms]", "number")], [("a", "1")], 80)
    assert table.heading[:3] == ["name  Device", "        self", "        [ms]"]


def test_prose_is_wrapped_and_not_cut():
    table = fit_table([NAME, PROSE], [("a", "one two three four five six seven")], 30)
    assert table.lines == ["a     one two three four five", "      six seven"]


def test_the_last_columns_go_first_and_are_named():
    headings = [NAME, *(Heading(f"n{i}", "number") for i in range(4))]
    row = ("x" * 50, *("1234567890" for _ in range(4)))
    assert fit_table(headings, [row], 70).left_out == ["n3"]
    # 32 for the name, and 12 for each number.
    kept = fit_table(headings, [row], 32 + 12 * 2, keep=(0, 3))
    assert kept.left_out == ["n1", "n3"]
    assert max(map(size_of, kept.lines)) == 32 + 12 * 2
    assert kept.lines[0].endswith("1234567890  1234567890")


@pytest.mark.parametrize(("columns", "limit"), [("", 120), ("80", 80), ("200", 200), ("nonsense", 120), ("0", 120)])
def test_a_report_is_no_wider_than_asked_for(tmp_path, monkeypatch, capsys, columns, limit):
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("TORCH_TRACE_CACHE", str(tmp_path / "cache"))
    long = [f"void at::native::kernel<{'int, ' * 60}{i}, {'float, ' * 60}>" for i in range(3)]
    write_trace(tmp_path / "x.json", *long)
    assert cli.main(["report", str(tmp_path / "x.json"), "--view", "operators"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = [line for line in lines if line.startswith("void")]
    assert len(set(rows)) >= 3
    assert max(map(size_of, lines)) <= limit
    cli.main(["report", str(tmp_path / "x.json"), "--view", "operators", "--format", "markdown"])
    assert all(name[:200].replace("<", r"\<") in (text := capsys.readouterr().out) for name in long[:1]), text
