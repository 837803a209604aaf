"""MegEngine's chrome_timeline.json: lanes for threads, devices and CUPTI streams."""

from tb_plugin.formats.megengine.reader import MegEngineReader

__all__ = ["MegEngineReader"]
