"""One run of ours: directory -> payloads, as TensorBoard's server does it. Prints sizes as JSON."""

from __future__ import annotations

import json
import sys

from tb_plugin.analyses.base import Params
from tb_plugin.service.catalog import Place
from tb_plugin.service.pool import Pool
from tb_plugin.service.workspace import Workspace, open_catalog
from tb_plugin.storage.cache import open_store

VIEWS = ("overview", "timeline", "operators", "kernels", "modules", "memory")


def main(folder: str, what: str) -> None:
    """``all``: every default payload; ``overview``: the first page alone."""
    workspace = Workspace(open_catalog([("", folder)]), Pool(), open_store())
    try:
        workspace.catalog.scan()
        entry = workspace.load(Place())
        sizes = {}
        for view in VIEWS if what == "all" else ("overview",):
            answer = workspace.view(Place(), view, Params())
            assert isinstance(answer, bytes)
            sizes[view] = len(answer)
        if what == "all":
            sizes["diff"] = len(workspace.group(Place(), "diff", Params()))
        assert entry.summary is not None
        print(json.dumps({"events": entry.summary.read.events_seen, "bytes": sizes}))
    finally:
        workspace.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
