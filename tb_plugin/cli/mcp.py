"""``torch-trace mcp``: tools for agents, on stdin and stdout."""

from __future__ import annotations

import argparse
import sys
from contextlib import redirect_stdout

from tb_plugin.agent.server import check_sdk, serve
from tb_plugin.agent.tools import Tools
from tb_plugin.cli.exit_codes import OK
from tb_plugin.cli.session import scan_path
from tb_plugin.service.workers.pool import Pool, answer_seconds
from tb_plugin.service.workspace import Workspace
from tb_plugin.storage.cache import open_store


def mcp(arguments: argparse.Namespace) -> int:
    """Answers until stdin ends, and returns the exit code. Raises UserError."""
    check_sdk()
    with redirect_stdout(sys.stderr):  # extensions may print when they are imported
        catalog = scan_path(arguments.path)
    workspace = Workspace(catalog, Pool(limit_seconds=answer_seconds()), open_store())
    try:
        serve(Tools(workspace, arguments.path))
    finally:
        workspace.close()
    return OK
