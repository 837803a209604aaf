"""Checks of the host and the origin of requests (docs/security.md).

Any web page in the user's browser can send requests to the local network.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from tb_plugin import settings
from tb_plugin.errors import UserError

HOSTS_VARIABLE = settings.HOSTS.name


class Forbidden(UserError):
    """Raised if a request came from another site, or used a host name that is not allowed."""

    status = 403


def check_host(environ: Mapping[str, object], allowed: str | None = None) -> None:
    """Raises Forbidden if TORCH_TRACE_HOSTS is set and does not contain the ``Host`` header.

    This check prevents DNS rebinding: a page could point its own host name at this server and read its data.
    Proxies and tunnels pass their own host names on, so only the user can list the valid names.
    """
    names = os.environ.get(HOSTS_VARIABLE, "") if allowed is None else allowed
    known = [name.strip().lower() for name in names.split(",") if name.strip()]
    if not known:
        return
    host = _without_port(str(environ.get("HTTP_HOST", "")).lower())
    if not any(host == name or (name.startswith(".") and host.endswith(name)) for name in known):
        raise Forbidden(
            "This host name is not allowed.", host[:200], f"Add the name to {HOSTS_VARIABLE}, or use another host name."
        )


def check_site(environ: Mapping[str, object]) -> None:
    """Raises Forbidden if the browser reports that another site sent the request.

    Such a site cannot read the response, but it could make the server read a trace. Programs and embedded
    TensorBoard pages do not report another site.
    """
    if str(environ.get("HTTP_SEC_FETCH_SITE", "")).lower() == "cross-site":
        raise Forbidden(
            "Requests from web pages of other sites are refused.", "Sec-Fetch-Site", "Open TensorBoard directly."
        )


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0].removeprefix("[")
    return host.partition(":")[0]
