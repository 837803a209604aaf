"""A real TensorBoard on a bucket answers what it answers on the local copy, also while the store is away."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from tb_plugin.storage.files import _filesystem
from tests import stores
from tests.browser.harness import tensorboard
from tests.browser.served import served
from tests.conftest import SAMPLES
from tests.depth import sampled

RUN = "resnet_cpu"
PATIENCE_SECONDS = 90


SECRETS = ("secret-of-the-tests", stores.ACCOUNT_KEY)


def event_file(folder):
    """What TensorBoard itself reads: one scalar."""
    writer = EventFileWriter(str(folder))
    value = Summary.Value(tag="loss", simple_value=0.5)
    writer.add_event(Event(step=1, wall_time=1.0, summary=Summary(value=[value])))
    writer.close()
    return next(folder.iterdir())


def ask(base, path, wanted, plugin="torch_trace"):
    """The JSON of a path as soon as ``wanted`` likes it."""
    end, seen = time.monotonic() + PATIENCE_SECONDS, None
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(f"{base}data/plugin/{plugin}/{path}", timeout=30) as answer:
                seen = json.load(answer)
        except urllib.error.HTTPError as error:
            seen = json.loads(error.read())
        if wanted(seen):
            return seen
        time.sleep(0.2)
    raise AssertionError(f"{path} stayed {seen}")


def overview(base):
    catalog = ask(base, "runs", lambda seen: seen.get("runs"))
    run = catalog["runs"][0]
    worker = run["workers"][0]
    place = {"run": run["name"], "worker": worker["name"], "span": worker["spans"][0]["id"]}
    return ask(base, f"view/overview?{urllib.parse.urlencode(place)}", lambda seen: "payloads" in seen)


@pytest.fixture(scope="module")
def expected(tmp_path_factory, workers):
    with served(SAMPLES / RUN, tmp_path_factory.mktemp("local"), workers) as base:
        return overview(base)


@pytest.mark.parametrize("scheme", sampled(["s3", "gs", "abfs"], ["s3"]))
def test_a_bucket_shows_what_the_local_copy_shows(scheme, expected, object_stores, tmp_path, monkeypatch):
    store = object_stores(scheme)
    for key, value in store.environment.items():
        monkeypatch.setenv(key, value)
    fs, root = _filesystem(store.url)
    if scheme != "gs" and not fs.exists(root):
        fs.mkdir(root)
    (tmp_path / "events").mkdir()
    for path in [*sorted((SAMPLES / RUN).glob("*.json*")), event_file(tmp_path / "events")]:
        fs.pipe(f"{root}/web/{RUN}/{path.name}", path.read_bytes())
    # TensorBoard's fast reader asks Google itself; the other one shares gcsfs with us, and may import it first.
    options = ["--load_fast=false"] if scheme == "gs" else []
    log = []
    # Below a prefix, as a training writes it.
    with tensorboard(f"{store.url}/web/{RUN}", tmp_path / "remote", *options, log=log) as base:
        assert overview(base) == expected
        assert ask(base, "tags", lambda seen: seen, plugin="scalars")["."].keys() == {"loss"}
        if scheme == "s3":  # the trouble takes a while to be noticed; once is enough
            store.door.mode = "error"
            try:
                trouble = ask(base, "runs", lambda seen: seen["problems"])
                assert trouble["runs"], "what was known stays"
                assert overview(base) == expected
            finally:
                store.door.mode = "pass"
            ask(base, "runs", lambda seen: not seen["problems"])
    # TensorBoard's own reader may say a traceback of its own while the store is in trouble; none may lead through us.
    assert not [line for line in log if "tb_plugin" in line and 'File "' in line]
    assert not [line for line in log if any(secret in line for secret in SECRETS)]
