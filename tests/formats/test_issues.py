"""What is told about a file is bounded, and nothing is left uncounted."""

from __future__ import annotations

from tb_plugin.formats.issues import MAX_EXAMPLES, MAX_TEXTS, TEXT_CHARS, IssueLog


def test_of_many_texts_the_most_frequent_are_told_apart() -> None:
    log = IssueLog()
    for i in range(100):
        log.add("unknown_category", "unknown", 1_000 - i, count=2 if i == 50 else 1, text=f"of {i:03}")
    issues = log.issues()
    assert len(issues) == MAX_TEXTS
    assert {issue.text for issue in issues[:-1]} == {"of 050", *(f"of {i:03}" for i in range(MAX_TEXTS - 2))}
    rest = issues[-1]
    assert rest.text == "events of 81 more unknown categories were loaded, but their type is unknown"
    assert (rest.count, rest.first_offset, len(rest.examples)) == (81, 901, MAX_EXAMPLES)
    assert rest.examples[0] == "of 018"
    assert sum(issue.count for issue in issues) == 101


def test_few_texts_are_all_told() -> None:
    log = IssueLog()
    for i in range(MAX_TEXTS):
        log.note("gzip_corrupt", f"of {i:03}")
    assert [issue.text for issue in log.issues()] == [f"of {i:03}" for i in range(MAX_TEXTS)]


def test_a_text_is_no_longer_than_needed() -> None:
    log = IssueLog()
    log.add("unknown_category", "unknown", text="x" * 10_000_000)
    assert len(log.issues()[0].text) == TEXT_CHARS
