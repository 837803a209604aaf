"""Chrome's trace JSON of any tool: VizTracer, custom tracers, Perfetto exports."""

from tb_plugin.formats.chrome_json.reader import ChromeJsonReader

__all__ = ["ChromeJsonReader"]
