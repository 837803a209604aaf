"""One run of ours: directory -> payloads, as TensorBoard's server does it. Prints sizes as JSON."""

from __future__ import annotations

import json
import sys

from tb_plugin.analysis.base import Params
from tb_plugin.service.catalog import Place
from tb_plugin.service.workers.pool import Pool
from tb_plugin.service.workspace import Workspace, open_catalog
from tb_plugin.storage.cache import open_store

PAGES = ("overview", "timeline", "operators", "kernels", "modules", "memory")
"""What the pages of one profile ask for at first."""


def main(folder: str, what: str) -> None:
    """``pages``: the default payloads of a profile, or of a run of several ranks; ``overview``: the first page alone."""
    workspace = Workspace(open_catalog([("", folder)]), Pool(), open_store())
    try:
        workspace.catalog.scan()
        places = [Place(*entry.key) for entry in workspace.catalog.entries()]
        sizes: dict[str, int] = {}
        views: tuple[str, ...] = ("overview",)
        if what == "pages" and len(places) == 1:
            views = PAGES
        elif what == "pages":
            # First: it has all ranks loaded side by side.
            sizes["distributed"] = len(workspace.group(places[0], "distributed", Params()))
        else:
            places = places[:1]
        events = 0
        for place in places:
            read = workspace.load(place).summary
            assert read is not None
            events += read.read.events_in_file
            for view in views:
                answer = workspace.view(place, view, Params())
                assert isinstance(answer, bytes)
                sizes[view] = sizes.get(view, 0) + len(answer)
        print(json.dumps({"events": events, "bytes": sizes}))
    finally:
        workspace.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
