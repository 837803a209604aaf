"""Which credentials a store is asked with: those of the environment, those of the URL, or none."""

from __future__ import annotations

import logging
import uuid
from datetime import UTC, datetime, timedelta
from itertools import product

import fsspec
import pytest

from tb_plugin.errors import StorageError
from tb_plugin.payloads.export import to_json
from tb_plugin.storage.files import Folder, _filesystem
from tests import stores
from tests.depth import sampled
from tests.service.fakes import catalog_of

HOST = f"https://{stores.ACCOUNT}.blob.core.windows.net"


def blob():
    """Azure's own library, half a second to import: not by each process that collects these tests."""
    return pytest.importorskip("azure.storage.blob")


@pytest.fixture(autouse=True)
def nobody(monkeypatch, tmp_path):
    """A machine without any credentials, in no cloud."""
    import google.auth.compute_engine._metadata as metadata

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "GOOGLE_APPLICATION_CREDENTIALS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "AzureCliCredential")
    monkeypatch.setattr(metadata, "_NO_GCE_CHECK", True)
    fsspec.filesystem("memory").clear_instance_cache()
    yield
    for protocol in ("s3", "gs", "abfs"):
        fsspec.get_filesystem_class(protocol).clear_instance_cache()


@pytest.fixture
def filled(object_stores, monkeypatch):
    """Fills a fresh folder of a store as its owner, forgets the owner, and gives the store and the URL."""

    def fill(scheme, acl=""):
        store, name = object_stores(scheme), f"logs-{uuid.uuid4().hex[:8]}"
        with pytest.MonkeyPatch.context() as patch:
            for key, value in store.environment.items():
                patch.setenv(key, value)
            fs, root = _filesystem(store.url)
            if scheme != "gs" and not fs.exists(root):
                fs.mkdir(root)
            fs.pipe({f"{root}/{name}/a.json": b"[7]"})
            if acl:
                fs.chmod(f"{root}/{name}/a.json", acl)
            fs.clear_instance_cache()
        store.door.requests.clear()
        store.door.signed.clear()
        return store, f"{store.url}/{name}"

    return fill


@pytest.fixture
def at_azurite(object_stores, monkeypatch):
    """Leads requests for the account's own address, which is Microsoft's, to the emulator."""
    import adlfs.spec

    here = f"http://127.0.0.1:{object_stores('abfs').door.port}/{stores.ACCOUNT}"
    by_url = adlfs.spec._create_aio_blob_service_client
    by_text = adlfs.spec._create_aio_blob_service_client_from_connection_string

    def with_url(account_url, location_mode=None, credential=None):
        # A token is only sent over TLS, and there is none to be had.
        place = account_url if hasattr(credential, "get_token") else account_url.replace(HOST, here)
        return by_url(place, location_mode, credential)

    monkeypatch.setattr(adlfs.spec, "_create_aio_blob_service_client", with_url)
    monkeypatch.setattr(
        adlfs.spec,
        "_create_aio_blob_service_client_from_connection_string",
        lambda connection_string: by_text(connection_string.replace(HOST, here)),
    )


def works(folder):
    (file,) = folder.list().files
    assert folder.head(file, 100) == b"[7]"
    with folder.open(file) as stream:
        assert stream.read() == b"[7]"
    return True


def sas(container="bucket", permission="rl"):
    return blob().generate_container_sas(
        stores.ACCOUNT,
        container,
        stores.ACCOUNT_KEY,
        permission=permission,
        expiry=datetime.now(UTC) + timedelta(hours=1),
    )


def test_a_public_s3_bucket_needs_no_account(filled, monkeypatch):
    store, url = filled("s3", acl="public-read")
    monkeypatch.setenv("S3_ENDPOINT", store.environment["S3_ENDPOINT"])
    assert works(Folder(url))
    assert store.door.signed and not any(store.door.signed)


def test_s3_credentials_are_used_when_there_are_some(filled, monkeypatch):
    store, url = filled("s3")
    for key, value in store.environment.items():
        monkeypatch.setenv(key, value)
    assert works(Folder(url))
    assert all(store.door.signed)


def test_a_private_s3_object_without_an_account_says_so(filled, monkeypatch):
    store, url = filled("s3")
    monkeypatch.setenv("S3_ENDPOINT", store.environment["S3_ENDPOINT"])
    folder = Folder(url)
    (file,) = folder.list().files
    with pytest.raises(StorageError, match="Forbidden") as caught:
        folder.head(file, 10)
    assert "No credentials were found" in caught.value.do


def test_credentials_that_come_late_are_found(filled, monkeypatch):
    store, url = filled("s3")
    monkeypatch.setenv("S3_ENDPOINT", store.environment["S3_ENDPOINT"])
    folder = Folder(url)
    store.door.mode = "denied"
    try:
        with pytest.raises(StorageError) as caught:
            folder.list()
        assert "No credentials were found" in caught.value.do
        with pytest.raises(StorageError):
            folder.list()
    finally:
        store.door.mode = "pass"
    for key, value in store.environment.items():
        monkeypatch.setenv(key, value)
    store.door.signed.clear()
    assert works(folder)
    assert all(store.door.signed)


@pytest.mark.parametrize("endpoint", ["https://127.0.0.1:{}", "127.0.0.1:{}"])
def test_an_s3_endpoint_with_a_certificate_of_its_own(filled, monkeypatch, tmp_path, endpoint):
    store, url = filled("s3", acl="public-read")
    door = stores.Door(store.door.target, tls=stores.own_certificate(tmp_path))
    monkeypatch.setenv("S3_ENDPOINT", endpoint.format(door.port))
    try:
        with pytest.raises(StorageError, match=r"(?i)certificate"):
            Folder(url).list()
        monkeypatch.setenv("S3_VERIFY_SSL", "0")
        assert works(Folder(url))
        assert door.requests
    finally:
        door.close()


def test_an_s3_endpoint_without_https(filled, monkeypatch):
    store, url = filled("s3", acl="public-read")
    monkeypatch.setenv("S3_ENDPOINT", f"127.0.0.1:{store.door.port}")
    monkeypatch.setenv("S3_USE_HTTPS", "0")
    assert works(Folder(url))


def test_a_public_google_bucket_needs_no_account(filled, monkeypatch):
    store, url = filled("gs")
    # As Google's own address: there the default credentials are looked for, and an emulator is not.
    monkeypatch.setitem(fsspec.config.conf, "gs", {"endpoint_url": f"http://127.0.0.1:{store.door.port}"})
    assert works(Folder(url))
    assert store.door.signed and not any(store.door.signed)


def test_broken_google_credentials_are_said_and_not_passed_over(filled, monkeypatch, tmp_path):
    store, url = filled("gs")
    monkeypatch.setitem(fsspec.config.conf, "gs", {"endpoint_url": f"http://127.0.0.1:{store.door.port}"})
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    with pytest.raises(StorageError, match=r"none\.json"):
        Folder(url).list()
    assert not store.door.requests


def test_a_public_azure_container_needs_no_account(filled, monkeypatch, at_azurite):
    store, url = filled("abfs")
    service = blob().BlobServiceClient.from_connection_string(store.environment["AZURE_STORAGE_CONNECTION_STRING"])
    service.get_container_client("bucket").set_container_access_policy({}, public_access="container")
    store.door.signed.clear()
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", stores.ACCOUNT)
    try:
        assert works(Folder(url))
        assert store.door.signed and not any(store.door.signed)
        assert works(Folder(url.replace("abfs:/", HOST)))
    finally:
        service.get_container_client("bucket").set_container_access_policy({})


FORMS = ("abfs://{}", "az://{}", "abfss://{}", HOST + "/{}")
WAYS = ("connection string", "key", "token", "token in a connection string")


@pytest.mark.parametrize(("form", "way"), sampled([*product(FORMS, WAYS)], [*zip(FORMS, WAYS, strict=True)]))
def test_azure_credentials_of_the_environment(filled, monkeypatch, at_azurite, form, way):
    store, url = filled("abfs")
    given = {
        "connection string": store.environment,
        "key": {"AZURE_STORAGE_ACCOUNT_NAME": stores.ACCOUNT, "AZURE_STORAGE_ACCOUNT_KEY": stores.ACCOUNT_KEY},
        "token": {"AZURE_STORAGE_ACCOUNT_NAME": stores.ACCOUNT, "AZURE_STORAGE_SAS_TOKEN": sas()},
        "token in a connection string": {
            "AZURE_STORAGE_CONNECTION_STRING": f"BlobEndpoint={HOST};SharedAccessSignature={sas()}"
        },
    }
    for key, value in given[way].items():
        monkeypatch.setenv(key, value)
    assert works(Folder(form.format(url.removeprefix("abfs://"))))
    assert all(store.door.signed)


def test_a_token_in_the_url_opens_the_place_and_is_never_shown(filled, monkeypatch, at_azurite, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    store, url = filled("abfs")
    # Of another account: what stands in the URL is the nearer.
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", "AccountName=other;AccountKey=b3RoZXI=;BlobEndpoint=http://h")
    token = sas()
    signature = token.partition("sig=")[2].partition("&")[0]
    folder = Folder(f"{HOST}/{url.removeprefix('abfs://')}?{token}")
    assert works(folder)
    (file,) = folder.list().files
    folder.copy(file, tmp_path / "copy")
    shown = [folder.url, folder.locate(file.path), folder.name, repr(folder.list())]
    store.door.mode = "denied"
    try:
        for attempt in (folder.list, lambda: folder.open(file), lambda: folder.copy(file, tmp_path / "copy")):
            with pytest.raises(StorageError) as caught:
                attempt()
            shown += [str(caught.value), caught.value.where]
        catalog = catalog_of(f"{HOST}/{url.removeprefix('abfs://')}?{token}")
        catalog.scan()
        answer = to_json(catalog.payload()).decode()
        assert "The storage reported an error" in answer
        shown.append(answer)
    finally:
        store.door.mode = "pass"
    assert any(signature in request for request in store.door.requests), "it was sent"
    assert signature not in " ".join([*shown, caplog.text])


def test_a_token_that_may_not_list_is_said(filled, at_azurite):
    _, url = filled("abfs")
    token = sas(permission="r")
    with pytest.raises(StorageError) as caught:
        Folder(f"{HOST}/{url.removeprefix('abfs://')}?{token}").list()
    assert token.partition("sig=")[2][:12] not in str(caught.value)


@pytest.mark.parametrize("missing", ["", "Unable to load libhdfs"])
def test_hdfs_without_hadoop_says_what_to_install(monkeypatch, missing):
    import pyarrow.fs

    def refuse(*args, **options):
        raise OSError(f"{missing}\ndlopen(libhdfs.so) failed: no such file")

    if missing:
        monkeypatch.setattr(pyarrow.fs, "HadoopFileSystem", refuse)
    else:  # this machine's own answer; with a Hadoop on it there is none
        try:
            pyarrow.fs.HadoopFileSystem("host", 8020)
        except OSError as error:
            if "libjvm" not in str(error) and "libhdfs" not in str(error):
                pytest.skip("Hadoop is here")
    with pytest.raises(StorageError) as caught:
        Folder("hdfs://host:8020/logs").list()
    assert caught.value.what == "hdfs:// needs Hadoop's client (libhdfs) and Java."
    assert "\n" not in str(caught.value) and "CLASSPATH" in caught.value.do
