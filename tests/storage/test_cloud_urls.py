"""Addresses as people write them."""

from __future__ import annotations

from tb_plugin.storage.cloud_urls import address_of
from tb_plugin.storage.files import Folder

SAS = "sv=2024-01-01&sig=abc%2Fdef%3D&se=2027"


def test_the_old_azure_address():
    address = address_of(f"https://acct.blob.core.windows.net/box/a/b?{SAS}")
    assert address.url == "abfs://box/a/b"
    endpoint = f"BlobEndpoint=https://acct.blob.core.windows.net;SharedAccessSignature={SAS}"
    assert (address.options["account_name"], address.options["connection_string"]) == ("acct", endpoint)
    assert "sig" not in repr(address)


def test_other_web_addresses_stay():
    assert address_of("https://example.org/x").url == "https://example.org/x"


def test_settings_of_s3(monkeypatch):
    for name, value in {"S3_ENDPOINT": "h:9", "S3_USE_HTTPS": "0", "S3_VERIFY_SSL": "0", "AWS_REGION": "eu"}.items():
        monkeypatch.setenv(name, value)
    client = address_of("s3://b/x").options["client_kwargs"]
    assert client == {"endpoint_url": "http://h:9", "region_name": "eu", "verify": False}


def test_a_folder_shows_no_token():
    folder = Folder(f"https://acct.blob.core.windows.net/box/logs?{SAS}")
    assert folder.url == "https://acct.blob.core.windows.net/box/logs"
    assert folder.locate("a.json") == "https://acct.blob.core.windows.net/box/logs/a.json"
    assert folder.name == "logs"
