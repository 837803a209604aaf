"""``torch-trace view``: the page in the browser, without TensorBoard."""

from __future__ import annotations

import argparse
import os
import sys
import webbrowser

from tb_plugin.cli.exit_codes import NOTHING, OK
from tb_plugin.cli.session import no_profiles_message, scan_path
from tb_plugin.cli.terminal import print_error, print_line
from tb_plugin.service.dropped_files import DroppedFiles
from tb_plugin.service.workers.pool import Pool, answer_seconds
from tb_plugin.service.workspace import Workspace
from tb_plugin.storage.cache import open_store
from tb_plugin.web.viewer import Viewer, start_server


def view(arguments: argparse.Namespace) -> int:
    """Serves the page until Ctrl+C and returns the exit code. Raises UserError."""
    dropped = DroppedFiles()
    try:
        return _serve(arguments, dropped)
    finally:
        dropped.close()


def _serve(arguments: argparse.Namespace, dropped: DroppedFiles) -> int:
    catalog = scan_path(arguments.path, dropped.folder)
    if not catalog.entries():
        for where, reason in catalog.skipped():
            print_error(f"{where}: {reason}")
        print_error(f"{arguments.path}: {no_profiles_message()}")
        return NOTHING
    pool = Pool(limit_seconds=answer_seconds())
    workspace = Workspace(catalog, pool, open_store())
    try:
        server, address = start_server(Viewer(workspace, dropped), arguments.port)
        pool.warm()
        print_line(f"Torch Trace: {address}   (Ctrl+C ends it)")
        sys.stdout.flush()
        if arguments.browser and _has_screen():
            webbrowser.open(address)
        server.serve_forever()
    finally:
        workspace.close()
    return OK


def _has_screen() -> bool:
    """Returns False where ``webbrowser`` could only start a text browser in this terminal."""
    return sys.platform != "linux" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
