"""Which requests are answered at all: a browser lends its user's place in the network to any page (docs/security.md)."""

from __future__ import annotations

import os
from collections.abc import Mapping

from tb_plugin import settings
from tb_plugin.errors import UserError

HOSTS_VARIABLE = settings.HOSTS.name


class Forbidden(UserError):
    """A request came from a page of another site, or under a name that is not ours."""

    status = 403


def check_host(environ: Mapping[str, object], allowed: str | None = None) -> None:
    """Raises Forbidden for a ``Host`` that TORCH_TRACE_HOSTS does not name; where that is empty every name is answered.

    A page may give a name of its own to the address of this server, and read what is there as if it were its own (DNS
    rebinding). Which names are right only the person knows: proxies and tunnels pass on theirs.
    """
    names = os.environ.get(HOSTS_VARIABLE, "") if allowed is None else allowed
    known = [name.strip().lower() for name in names.split(",") if name.strip()]
    if not known:
        return
    host = _without_port(str(environ.get("HTTP_HOST", "")).lower())
    if not any(host == name or (name.startswith(".") and host.endswith(name)) for name in known):
        raise Forbidden("This host name is not allowed.", host[:200], f"Add it to {HOSTS_VARIABLE}, or use another.")


def check_site(environ: Mapping[str, object]) -> None:
    """Raises Forbidden where a browser says that a page of another site asks.

    Such a page cannot read the answer, but would have a trace read. Programs, and pages of TensorBoard wherever they are
    embedded, do not say so.
    """
    if str(environ.get("HTTP_SEC_FETCH_SITE", "")).lower() == "cross-site":
        raise Forbidden("Requests from pages of other sites are refused.", "Sec-Fetch-Site", "Open TensorBoard itself.")


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0].removeprefix("[")
    return host.partition(":")[0]
