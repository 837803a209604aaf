"""Removal of credentials from error messages and logs."""

from __future__ import annotations

import logging
import os
import re
import traceback
from collections.abc import Iterator
from urllib.parse import quote, unquote

HIDDEN = "***"
# Environment variables that contain a secret.
VARIABLES = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AZURE_STORAGE_CONNECTION_STRING",
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_KEY",
    "AZURE_STORAGE_SAS_TOKEN",
    "AZURE_CLIENT_SECRET",
    "AZURE_STORAGE_CLIENT_SECRET",
)
# Loggers of the cloud libraries and of their HTTP clients, including child loggers.
LIBRARIES = (
    "s3fs",
    "aiobotocore",
    "botocore",
    "gcsfs",
    "google",
    "adlfs",
    "azure",
    "fsspec",
    "aiohttp",
    "urllib3",
    "asyncio",
)
# Libraries that log a traceback for each failed request, also for scans of an unreachable storage.
_NOISY = ("s3fs", "gcsfs", "adlfs")
# Minimum length of a secret, in characters; shorter values would hide parts of ordinary words.
_MIN_SECRET_LENGTH = 6
# Secret parts of a connection string or a SAS token.
_PARTS = re.compile(r"(?i)(?:AccountKey|SharedAccessSignature|sig)=([^;&\s]+)")
_USER = re.compile(r"(\w://)[^/@\s'\"]*:[^/@\s'\"]*@")
_QUERY = re.compile(r"(\w://[^\s?'\"<>]*)\?[^\s'\"<>]*")
_BEARER = re.compile(r"(?i)\b(Bearer|Basic|SharedKey|AWS4-HMAC-SHA256)\s+[^\s'\"<>]+")
_NAMED = re.compile(
    r"(?i)\b((?:AccountKey|SharedAccessSignature|sig|signature|X-Amz-[\w-]+|Key-Pair-Id|AWSAccessKeyId|"
    r"[\w-]*token|[\w-]*password|[\w-]*secret[\w-]*)['\"]?\s*[=:]\s*b?['\"]?)[^&;,\s'\"<>]+"
)
# Secrets from URLs.
_seen: dict[str, None] = {}


def remember(text: str) -> None:
    """Adds a secret to redact from now on, in any encoding. Keys and signatures inside ``text`` are also redacted."""
    for part in (text, *_PARTS.findall(text)):
        for form in (part, unquote(part), quote(unquote(part), safe="")):
            if len(form) >= _MIN_SECRET_LENGTH:
                _seen[form] = None


def redact(text: str) -> str:
    """Removes user names, passwords, URL queries, signatures, keys and known secrets from a text."""
    for value in _known_secrets():
        text = text.replace(value, HIDDEN)
    text = _USER.sub(rf"\1{HIDDEN}@", text)
    text = _QUERY.sub(r"\1", text)
    text = _BEARER.sub(rf"\1 {HIDDEN}", text)
    return _NAMED.sub(rf"\1{HIDDEN}", text)


def clean_logs() -> None:
    """Redacts the log records of storage libraries from now on. Log levels do not change."""
    for name in LIBRARIES:
        logger = logging.getLogger(name)
        if not any(isinstance(handler, Redactor) for handler in logger.handlers):
            # Placed before a handler that a library adds itself (S3FS_LOGGING_LEVEL).
            logger.handlers.insert(0, Redactor())


class Redactor(logging.Handler):
    """Redacts records of a logger and its children before other handlers receive them.

    A filter would not see the records of child loggers such as ``gcsfs.credentials``. Tracebacks of verbose
    libraries are shown only at DEBUG level, because users already see a StorageError.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Changes the record. Handlers of parent loggers then print the redacted record."""
        try:
            text = record.getMessage()
        except (TypeError, ValueError):  # wrong format arguments in a library
            text = f"{record.msg} {record.args}"
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            if str(error) not in text:
                text = f"{text} ({type(error).__name__}: {error})"
            is_noisy = record.name.partition(".")[0] in _NOISY
            if not is_noisy or logging.getLogger(record.name).isEnabledFor(logging.DEBUG):
                record.exc_text = redact("".join(traceback.format_exception(error)))
        record.exc_info = None
        record.msg, record.args = redact(text), None
        # Python prints records without any handler. This logger always has one, so they are printed here.
        last = logging.lastResort
        if last is not None and record.levelno >= last.level and not logging.getLogger().handlers:
            last.handle(record)


def _known_secrets() -> Iterator[str]:
    values = {*_seen}
    for name in VARIABLES:
        value = os.environ.get(name, "").strip()
        values.update((value, *_PARTS.findall(value)))
    yield from sorted((value for value in values if len(value) >= _MIN_SECRET_LENGTH), key=len, reverse=True)
