"""Addresses as people write them, and texts without credentials."""

from __future__ import annotations

import pytest

from tb_plugin.storage.clouds import address_of, join, redact
from tb_plugin.storage.files import Folder

SAS = "sv=2024-01-01&sig=abc%2Fdef%3D&se=2027"


def test_the_old_azure_address():
    address = address_of(f"https://acct.blob.core.windows.net/box/a/b?{SAS}")
    assert address.url == "abfs://box/a/b"
    assert (address.options["account_name"], address.options["sas_token"]) == ("acct", SAS)
    assert "sig" not in repr(address)


def test_other_web_addresses_stay():
    assert address_of("https://example.org/x").url == "https://example.org/x"


def test_settings_of_s3(monkeypatch):
    for name, value in {"S3_ENDPOINT": "h:9", "S3_USE_HTTPS": "0", "S3_VERIFY_SSL": "0", "AWS_REGION": "eu"}.items():
        monkeypatch.setenv(name, value)
    client = address_of("s3://b/x").options["client_kwargs"]
    assert client == {"endpoint_url": "http://h:9", "region_name": "eu", "verify": False}


def test_a_token_stays_at_the_end():
    assert join("https://h/box?t=1", "a.json") == "https://h/box/a.json?t=1"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("hdfs://me:pw@host/x", "hdfs://***@host/x"),
        ("abfs://box@acct.dfs.core.windows.net/x", "abfs://box@acct.dfs.core.windows.net/x"),
        (f"GET https://h/x?{SAS} failed", "GET https://h/x failed"),
        ("AccountName=a;AccountKey=Zm9v/==;X=1", "AccountName=a;AccountKey=***;X=1"),
        ("Authorization: Bearer ya29.abc", "Authorization: Bearer ***"),
        ("InvalidToken sig=abc&x=1", "InvalidToken sig=***&x=1"),
        ("The path does not exist.", "The path does not exist."),
    ],
)
def test_redacted(text, shown):
    assert redact(text) == shown


def test_values_of_secret_variables_are_hidden(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI")
    assert redact("bad key wJalrXUtnFEMI here") == "bad key *** here"


def test_a_folder_shows_no_token():
    folder = Folder(f"https://acct.blob.core.windows.net/box/logs?{SAS}")
    assert folder.url == "https://acct.blob.core.windows.net/box/logs"
    assert folder.locate("a.json") == "https://acct.blob.core.windows.net/box/logs/a.json"
    assert folder._real_url("a.json") == f"https://acct.blob.core.windows.net/box/logs/a.json?{SAS}"
    assert folder.name == "logs"
