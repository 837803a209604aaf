"""The states of a profile: what each event does in each state, and that a load of the past does nothing."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tb_plugin import registry
from tb_plugin.errors import UserError
from tb_plugin.service.profile_files import ProfileFiles, Root
from tb_plugin.service.states import Changes, Entry
from tb_plugin.service.workers.question import Progress
from tb_plugin.storage.files import Folder
from tb_plugin.storage.listing import StoredFile

SUMMARY = SimpleNamespace()
FAILURE = UserError("It is damaged.", "a.json", "Write it anew.")


def found(fingerprint="1"):
    return ProfileFiles("run", "w", "1", None, ROOT, (StoredFile("a.json", 2, fingerprint),), registry.readers()[0])


ROOT = Root(Folder("/nowhere"))


@pytest.fixture
def entry():
    return Entry(found())


def told(entry):
    return entry.state, entry.summary, entry.problem, entry.load


BEGUN = {
    "found": lambda entry: None,
    "loading": lambda entry: entry.begin(),
    "ready": lambda entry: entry.settle(entry.begin(), SUMMARY, "columns"),
    "failed": lambda entry: entry.fail(entry.begin(), FAILURE),
}
EVENTS = {
    "begin": lambda entry, load: entry.begin() is not None,
    "settle": lambda entry, load: entry.settle(load, SUMMARY, "columns"),
    "fail": lambda entry, load: entry.fail(load, FAILURE),
    "release": lambda entry, load: entry.release(load),
    "lose": lambda entry, load: bool(entry.lose()),
    "forgive": lambda entry, load: entry.forgive(),
}
WAYS = {
    ("found", "begin"): "loading",
    ("loading", "settle"): "ready",
    ("loading", "fail"): "failed",
    ("loading", "release"): "found",
    ("ready", "lose"): "found",
    ("failed", "forgive"): "found",
}


@pytest.mark.parametrize("state", BEGUN)
@pytest.mark.parametrize("event", EVENTS)
def test_each_event_in_each_state(entry, state, event):
    BEGUN[state](entry)
    before, load = told(entry), entry.load
    answer = EVENTS[event](entry, load)
    if (state, event) in WAYS:
        assert entry.state == WAYS[state, event] and answer in (True, None)
        assert (entry.summary is SUMMARY) == (entry.state == "ready")
        assert (entry.problem is FAILURE) == (entry.state == "failed")
        assert (entry.load is not None) == (entry.state == "loading")
    elif not (load is None and event in ("settle", "fail")):  # they need a load to be of one
        assert told(entry) == before and not answer


@pytest.mark.parametrize("event", ["settle", "fail", "release"])
@pytest.mark.parametrize("since", ["released", "begun anew", "ready", "gone"])
def test_what_comes_back_from_an_earlier_load_is_ignored(entry, event, since):
    early = entry.begin()
    entry.release(early)
    if since == "begun anew":
        entry.begin()
    if since == "ready":
        BEGUN["ready"](entry)
    if since == "gone":
        entry.begin()
        entry.leave()
    before = told(entry)
    early.copying(Progress("copying", 0.5))
    assert not EVENTS[event](entry, early)
    assert told(entry) == before
    assert entry.fraction == (1.0 if since == "ready" else 0.0), "how far it got is nobody's any more"


def test_a_file_that_is_another_one_now_is_not_loaded_again(entry):
    load = entry.begin()
    assert entry.leave() is load, "the one to be stopped"
    assert (entry.state, entry.gone, entry.begin()) == ("found", True, None)
    assert entry.leave() is None


def test_a_lost_cache_is_loaded_anew_and_questions_under_way_keep_their_path(entry):
    BEGUN["ready"](entry)
    assert entry.lose() == "columns"
    assert (entry.state, entry.path, entry.fraction) == ("found", "columns", 0.0)
    assert entry.lose() == "", "once"
    BEGUN["ready"](entry)
    assert entry.state == "ready"


def test_a_file_that_is_away_comes_back(entry):
    BEGUN["ready"](entry)
    entry.at("3")
    entry.vanish()
    assert entry.vanished and entry.state == "ready"
    again = found()
    entry.appear(again)
    assert not entry.vanished and all(each.files is again for each in entry.all())


def test_a_copy_is_the_first_half(entry):
    load = entry.begin()
    assert (entry.progress(entry.now).stage, entry.fraction) == ("waiting", 0.0)
    load.copying(Progress("copying", 0.5))
    assert (entry.progress(entry.now).stage, entry.fraction) == ("copying", 0.25)
    load.copying(Progress("copying", 1.0))
    load.reading(SimpleNamespace(fraction=0.5, progress=Progress("reading", 0.5)), "columns", is_part=False)
    assert (entry.progress(entry.now).stage, entry.fraction) == ("reading", 0.75)


def test_every_change_is_counted_once_and_nothing_else():
    changes = Changes()
    entry = Entry(found(), changes=changes)
    counts = []
    for step in (
        lambda: entry.ask(),
        lambda: entry.at("3"),
        lambda: entry.begin(),
        lambda: entry.begin(),
        lambda: entry.settle(entry.load, SUMMARY, "columns"),
        lambda: entry.vanish(),
        lambda: entry.vanish(),
        lambda: entry.appear(entry.files),
        lambda: entry.appear(entry.files),
        lambda: entry.at("3").begin(),
        lambda: entry.lose(),
        lambda: entry.lose(),
    ):
        before = changes.count
        step()
        counts.append(changes.count - before)
    assert counts == [0, 0, 1, 0, 1, 1, 0, 1, 0, 1, 1, 0]
