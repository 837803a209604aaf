"""Cloud URLs and their settings for fsspec.

Each library searches for credentials itself. If it finds none, access is anonymous, as for public buckets. This
module supports settings that torch-tb-profiler documented but the libraries ignore: ``S3_ENDPOINT``,
``S3_USE_HTTPS``, ``S3_VERIFY_SSL``, ``AWS_REGION``, and https addresses of Azure.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

import msgspec

from tb_plugin.storage.secrets import remember

# Scheme -> package extra that installs its file system.
EXTRAS = {"s3": "s3", "s3a": "s3", "gs": "gcs", "gcs": "gcs", "abfs": "azure", "abfss": "azure", "az": "azure"}
CONNECT_SECONDS = 10
READ_SECONDS = 30
# Attempts per request to S3. gcsfs and adlfs have their own limits (docs/cloud.md).
REQUEST_ATTEMPTS = 3
_BLOB_HOST = ".blob.core."
_NO = ("0", "false", "no", "off")
_AZURE_BLOCKS = 4
_AZURE_SCOPE = "https://storage.azure.com/.default"
# By default, gcsfs requests the bucket type over gRPC with credentials, which takes a minute with an emulator.
_GCS_WITHOUT_GRPC = "gcsfs.core:GCSFileSystem"
_HADOOP = ("libhdfs", "libjvm")


class Address(msgspec.Struct, frozen=True):
    """A URL and the options for its fsspec file system.

    ``file_system`` is "module:class" if it differs from the fsspec default for the scheme.
    """

    url: str
    options: dict[str, Any] = msgspec.field(default_factory=dict)
    file_system: str = ""

    def __repr__(self) -> str:
        # Without the options, which may contain credentials.
        return f"Address(url={self.url!r}, file_system={self.file_system!r})"


def address_of(url: str, anonymous: bool = False) -> Address:
    """Returns the fsspec address of a URL. ``anonymous`` requests access without credentials."""
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    if parts.password:
        remember(parts.password)
    if _is_blob(parts):
        return _blob(url, anonymous)
    if EXTRAS.get(scheme) == "gcs":
        # Emulators have no accounts.
        anonymous = anonymous or bool(os.environ.get("STORAGE_EMULATOR_HOST"))
        return Address(url, _gcs(anonymous), _GCS_WITHOUT_GRPC if anonymous else "")
    options = _OPTIONS.get(EXTRAS.get(scheme, ""))
    return Address(url, options(anonymous) if options else {})


def extra_of(url: str) -> str | None:
    """Returns the extra of this package that installs the file system for a URL, or None."""
    parts = urlsplit(url)
    return "azure" if _is_blob(parts) else EXTRAS.get(parts.scheme.lower())


def lacks_credentials(error: BaseException) -> bool:
    """Returns whether an error means that no credentials were found, not that they are wrong."""
    return any(_says_none(cause) for cause in _chain(error))


def shorten_pauses(fs: Any) -> None:
    """Shortens Azure's retry pauses from 18, 24 and 42 s to 3, 5 and 9 s, for which adlfs has no option."""
    client = getattr(fs, "service_client", None)
    policy = getattr(getattr(client, "_config", None), "retry_policy", None)
    if policy is not None:
        policy.initial_backoff, policy.increment_base, policy.random_jitter_range = 1, 2, 2


def check_credentials(fs: Any) -> None:
    """Raises an error if Azure's default credentials are missing, for which its library searches a minute."""
    if (credential := getattr(fs, "sync_credential", None)) is not None:
        credential.get_token(_AZURE_SCOPE)


def lacks_hadoop(error: BaseException) -> bool:
    """Returns whether an error means that pyarrow could not load the native Hadoop client."""
    return any(library in str(cause) for cause in _chain(error) for library in _HADOOP)


def _is_blob(parts: SplitResult) -> bool:
    return parts.scheme.lower() in ("http", "https") and _BLOB_HOST in (parts.hostname or "")


def _says_none(error: BaseException) -> bool:
    match type(error).__name__:
        case "NoCredentialsError":  # botocore
            return True
        case "DefaultCredentialsError":  # google-auth; also if the named file cannot be read
            return "credentials were not found" in str(error)
        case "ClientAuthenticationError":  # azure-core; a rejection by the server has a response
            return getattr(error, "response", None) is None
    return False


def _chain(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def _s3(anonymous: bool) -> dict[str, Any]:
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
    config = {
        "connect_timeout": CONNECT_SECONDS,
        "read_timeout": READ_SECONDS,
        "retries": {"mode": "standard", "total_max_attempts": REQUEST_ATTEMPTS},
    }
    options = {"client_kwargs": client, "config_kwargs": config}
    return {**options, "anon": True} if anonymous else options


def _gcs(anonymous: bool) -> dict[str, Any]:
    from aiohttp import ClientTimeout

    # By default, aiohttp aborts every download after five minutes.
    options: dict[str, Any] = {
        "requests_timeout": ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=READ_SECONDS)
    }
    # Search for Google's metadata server only once, for three seconds.
    os.environ.setdefault("GCE_METADATA_DETECT_RETRIES", "1")
    # By default, gcsfs tries the metadata server for half a minute more before it continues without credentials.
    return {**options, "token": "anon" if anonymous else "google_default"}


def _azure(anonymous: bool) -> dict[str, Any]:
    # By default, adlfs requests all blocks of a file at once and reports no progress.
    options: dict[str, Any] = {
        "connection_timeout": CONNECT_SECONDS,
        "read_timeout": READ_SECONDS,
        "max_concurrency": _AZURE_BLOCKS,
    }
    return {**options, "anon": True} if anonymous else options


def _blob(url: str, anonymous: bool) -> Address:
    parts = urlsplit(url)
    options = _azure(anonymous)
    options["account_name"] = (parts.hostname or "").partition(".")[0]
    options["account_host"] = parts.hostname
    if parts.query:
        remember(parts.query)
        # A connection string takes precedence over one in the environment, which may be for another account.
        options["connection_string"] = f"BlobEndpoint=https://{parts.hostname};SharedAccessSignature={parts.query}"
    return Address(f"abfs://{unquote(parts.path).strip('/')}", options)


# Package extra -> function that returns the options of its file system.
_OPTIONS: dict[str, Callable[[bool], dict[str, Any]]] = {"s3": _s3, "azure": _azure}
