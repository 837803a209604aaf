"""What a person writes for a place in a cloud, as fsspec wants it; and texts without credentials.

Credentials come from where each library looks for them. This module adds only what torch-tb-profiler documented and the
libraries do not read: ``S3_ENDPOINT``, ``S3_USE_HTTPS``, ``S3_VERIFY_SSL``, ``AWS_REGION``, and Azure's plain https address.
"""

from __future__ import annotations

import logging
import os
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs", "abfs": "azure", "abfss": "azure", "az": "azure"}
"""Scheme -> the extra of this package that installs its file system."""
CONNECT_SECONDS = 10
READ_SECONDS = 30
_LIBRARIES = ("s3fs", "gcsfs", "adlfs")
_BLOB_HOST = ".blob.core."
_NO = ("0", "false", "no", "off")
_HIDDEN = "***"
_SECRET_VARIABLES = (
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
_SHORTEST_SECRET = 6
_USER = re.compile(r"(\w://)[^/@\s'\"]*:[^/@\s'\"]*@")
_QUERY = re.compile(r"(\w://[^\s?'\"<>]*)\?[^\s'\"<>]*")
_NAMED = re.compile(
    r"(?i)\b((?:AccountKey|SharedAccessSignature|sig|signature|X-Amz-\w+|Key-Pair-Id|AWSAccessKeyId|"
    r"access_token|token|password|secret|[\w-]*secret[\w-]*)\s*[=:]\s*)[^&;,\s'\"<>]+"
)
_BEARER = re.compile(r"(?i)\b(Bearer|Basic|SharedKey|AWS4-HMAC-SHA256)\s+[^\s'\"<>]+")


@dataclass(frozen=True)
class Address:
    """A URL that fsspec understands, and the options for its file system."""

    url: str
    options: dict[str, Any] = field(default_factory=dict, repr=False)


def address_of(url: str) -> Address:
    """The address of a URL with a scheme."""
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    if scheme in ("http", "https") and _BLOB_HOST in (parts.hostname or ""):
        return _blob(url)
    if EXTRAS.get(scheme) == "s3":
        return Address(url, _s3())
    if EXTRAS.get(scheme) == "gcs" and os.environ.get("STORAGE_EMULATOR_HOST"):
        # An emulator has no gRPC side, and gcsfs would wait a minute for one. Read when gcsfs is imported.
        os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
    if EXTRAS.get(scheme) == "azure":
        return Address(url, _azure())
    return Address(url)


def quiet_libraries() -> None:
    """Keeps the cloud libraries' own tracebacks, with URLs in them, out of the log; a level somebody set stays.

    What they raise reaches the person through StorageError, without credentials.
    """
    for name in _LIBRARIES:
        if (logger := logging.getLogger(name)).level == logging.NOTSET:
            logger.setLevel(logging.CRITICAL)


def extra_of(url: str) -> str | None:
    """The extra that installs the file system of a URL, where this package has one."""
    return EXTRAS.get(urlsplit(address_of(url).url).scheme.lower())


def join(url: str, path: str) -> str:
    """A path below a URL; a query (a SAS token) stays at the end."""
    base, mark, query = url.partition("?")
    return f"{base.rstrip('/')}/{path}{mark}{query}"


def redact(text: str) -> str:
    """A text without user:password, query strings of URLs, signatures, keys and the values of secret variables."""
    for name in _SECRET_VARIABLES:
        value = os.environ.get(name, "")
        if len(value) >= _SHORTEST_SECRET:
            text = text.replace(value, _HIDDEN)
    text = _USER.sub(rf"\1{_HIDDEN}@", text)
    text = _QUERY.sub(r"\1", text)
    text = _BEARER.sub(rf"\1 {_HIDDEN}", text)
    return _NAMED.sub(rf"\1{_HIDDEN}", text)


def _s3() -> dict[str, Any]:
    client: dict[str, Any] = {}
    if endpoint := os.environ.get("S3_ENDPOINT", "").strip():
        if "://" not in endpoint:
            plain = os.environ.get("S3_USE_HTTPS", "1").strip().lower() in _NO
            endpoint = f"{'http' if plain else 'https'}://{endpoint}"
        client["endpoint_url"] = endpoint
    if region := os.environ.get("AWS_REGION", "").strip():
        client["region_name"] = region
    if os.environ.get("S3_VERIFY_SSL", "1").strip().lower() in _NO:
        client["verify"] = False
    config = {"connect_timeout": CONNECT_SECONDS, "read_timeout": READ_SECONDS, "retries": {"max_attempts": 2}}
    return {"client_kwargs": client, "config_kwargs": config}


def _azure() -> dict[str, Any]:
    return {"connection_timeout": CONNECT_SECONDS, "read_timeout": READ_SECONDS}


def _blob(url: str) -> Address:
    """``https://<account>.blob.core.windows.net/<container>/<path>[?<SAS token>]`` as torch-tb-profiler took it."""
    parts = urlsplit(url)
    options = _azure()
    options["account_name"] = (parts.hostname or "").partition(".")[0]
    options["account_host"] = parts.hostname
    if parts.query:
        options["sas_token"] = parts.query
    return Address(f"abfs://{unquote(parts.path).strip('/')}", options)
