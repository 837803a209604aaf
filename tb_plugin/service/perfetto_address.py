"""Address of the Perfetto UI."""

from __future__ import annotations

import logging
import os
from functools import cache
from urllib.parse import urlsplit

from tb_plugin import settings

log = logging.getLogger("torch_trace")

VARIABLE = settings.PERFETTO.name
PUBLIC = "https://ui.perfetto.dev"


def perfetto_url() -> str:
    """Returns the address, or "" if TORCH_TRACE_PERFETTO is invalid: never the public site instead."""
    return _checked(os.environ.get(VARIABLE, "").strip())


@cache
def _checked(text: str) -> str:
    if not text:
        return PUBLIC
    try:
        parts = urlsplit(text)
        # An invalid port raises, too. The page sends traces to this origin, so it may not contain credentials.
        valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and "@" not in parts.netloc
    except ValueError:
        valid = False
    if valid and text.isprintable() and " " not in text:
        return text
    log.warning("%s is not an http or https address (%r), so the page cannot open Perfetto.", VARIABLE, text)
    return ""
