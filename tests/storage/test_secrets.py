"""Texts and logs without credentials."""

from __future__ import annotations

import logging

import pytest

from tb_plugin.storage import secrets
from tb_plugin.storage.cloud_urls import address_of
from tb_plugin.storage.secrets import clean_logs, redact

KEY = "Zm9vYmFyYmF6cXV4Zm9vYmFy=="
SAS = "sv=2024-01-01&sig=abc%2Fdef%3D&se=2027"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("hdfs://me:pw@host/x", "hdfs://***@host/x"),
        ("abfs://box@acct.dfs.core.windows.net/x", "abfs://box@acct.dfs.core.windows.net/x"),
        (f"GET https://h/x?{SAS} failed", "GET https://h/x failed"),
        ("AccountName=a;AccountKey=Zm9v/==;X=1", "AccountName=a;AccountKey=***;X=1"),
        ("Authorization: Bearer ya29.abc", "Authorization: Bearer ***"),
        ("{'X-Amz-Security-Token': b'FwoGZX'}", "{'X-Amz-Security-Token': b'***'}"),
        ("InvalidToken sig=abc&x=1", "InvalidToken sig=***&x=1"),
        ('{"refresh_token": "1//0abc"}', '{"refresh_token": "***"}'),
        ("The path does not exist.", "The path does not exist."),
    ],
)
def test_redacted(text, shown):
    assert redact(text) == shown


def test_values_of_secret_variables_are_hidden(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI")
    assert redact("bad key wJalrXUtnFEMI here") == "bad key *** here"


def test_the_key_inside_a_connection_string_is_hidden_alone_too(monkeypatch):
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", f"AccountName=a;AccountKey={KEY};BlobEndpoint=http://h")
    assert redact(f"cannot decode {KEY} here") == "cannot decode *** here"


def test_a_signature_that_stood_in_a_url_is_hidden_however_it_is_encoded(monkeypatch):
    monkeypatch.setattr(secrets, "_seen", {})
    address_of(f"https://acct.blob.core.windows.net/box?{SAS}")
    assert redact("got abc/def= and abc%2Fdef%3D") == "got *** and ***"


@pytest.fixture
def planted(monkeypatch, caplog):
    """Secrets in the environment, and everything below DEBUG captured as a log file would get it."""
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)
    clean_logs()
    caplog.set_level(logging.WARNING)
    return caplog


@pytest.mark.parametrize("name", ["s3fs", "gcsfs.credentials", "adlfs.spec", "azure.core.pipeline", "botocore.auth"])
def test_logs_keep_their_warnings_without_credentials(planted, name):
    logging.getLogger(name).warning("asking %s with %s", f"https://h/box?{SAS}", KEY)
    assert planted.messages == ["asking https://h/box with ***"]
    assert planted.records[0].levelno == logging.WARNING


def test_an_exception_is_one_clean_line_in_the_log(planted):
    try:
        raise OSError(f"Forbidden: https://h/box?{SAS} {KEY}")
    except OSError:
        logging.getLogger("gcsfs").exception("out of retries")
    assert planted.messages == ["out of retries (OSError: Forbidden: https://h/box ***)"]
    assert "Traceback" not in planted.text and "abc%2F" not in planted.text


def test_other_libraries_keep_their_tracebacks_clean(planted):
    try:
        raise OSError(KEY)
    except OSError:
        logging.getLogger("asyncio").exception("Task exception was never retrieved")
    assert "Traceback" in planted.text and KEY not in planted.text


def test_at_debug_the_traceback_stays_and_is_clean(planted):
    with planted.at_level(logging.DEBUG, "gcsfs"):
        try:
            raise OSError(KEY)
        except OSError:
            logging.getLogger("gcsfs").exception("out of retries")
    assert "Traceback" in planted.text and KEY not in planted.text


def test_levels_that_a_person_set_stay(planted):
    logger = logging.getLogger("s3fs")
    before = logger.level
    clean_logs()
    assert logger.level == before
    assert sum(isinstance(handler, secrets.Redactor) for handler in logger.handlers) == 1


def test_without_any_handler_warnings_still_reach_the_terminal(planted, monkeypatch, capsys):
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    logging.getLogger("adlfs").warning("no %s", KEY)
    logging.getLogger("adlfs").info("silent")
    assert capsys.readouterr().err == "no ***\n"
