"""MegEngine's profiler: how it is told to record more, and what a MegEngine training does about a finding."""

from __future__ import annotations

import re

from tb_plugin.trace.recorder import Recorder

COLLECTIVE = re.compile(r"^(?:CollectiveComm|RemoteSend|RemoteRecv)$")
"""Operators that communicate."""

MEGENGINE = Recorder("megengine", "MegEngine's profiler", {}, (), ("megengine",))
