"""Settings: environment variables, each declared once."""

from __future__ import annotations

from typing import NamedTuple

# In the order of docs/reference/settings.md.
SETTINGS: list[Setting] = []


class Setting(NamedTuple):
    """An environment variable. ``meaning`` and ``default`` are Markdown for docs/reference/settings.md."""

    name: str
    meaning: str
    default: str


def _declared(name: str, meaning: str, default: str = "") -> Setting:
    SETTINGS.append(Setting(name, meaning, default))
    return SETTINGS[-1]


CACHE = _declared(
    "TORCH_TRACE_CACHE",
    "folder of parsed traces; empty or `off`: a private temporary folder, removed at exit",
    default="`torch-trace` in the user's cache folder",
)
CACHE_DIR = _declared(
    "TORCH_TRACE_CACHE_DIR",
    "older name of `TORCH_TRACE_CACHE`; used only if that one is not set",
    default="",
)
CACHE_MB = _declared(
    "TORCH_TRACE_CACHE_MB",
    "largest size of the cache in megabytes; least recently used files go first",
    default="8000",
)
CLASSES = _declared(
    "TORCH_TRACE_CLASSES",
    "a file with your own kernel classes, lines `class = regex` ([how](../concepts/attribution.md#kernels))",
    default="none",
)
STEPS = _declared(
    "TORCH_TRACE_STEPS",
    "your own pattern of server annotations that are steps, a regular expression with named groups "
    "([how](../concepts/attribution.md#serving))",
    default="none",
)
WORKERS = _declared(
    "TORCH_TRACE_WORKERS",
    "largest number of worker processes",
    default="by cores and memory, 4 at most",
)
ANSWER_SECONDS = _declared(
    "TORCH_TRACE_ANSWER_SECONDS",
    "time limit of one page or table, after which its worker ends and the page says so; `0`: no limit. "
    "Reading a file and the command line have no limit",
    default="120",
)
MEMORY_MB = _declared(
    "TORCH_TRACE_MEMORY_MB",
    "memory of all workers together. Reads that do not fit together run one after the other. A trace that "
    "does not fit alone opens as a window",
    default="half of the machine's (or container's) memory",
)
FOLLOW_LINKS = _declared(
    "TORCH_TRACE_FOLLOW_LINKS",
    "`1`: follow symbolic links that lead out of the log directory. Otherwise such links are listed as skipped",
    default="off",
)
HOSTS = _declared(
    "TORCH_TRACE_HOSTS",
    "host names that the server answers to, comma-separated, without ports; `.lab.example` covers all "
    "names with that ending. Set it if your browser also opens pages of the internet "
    "([security](../security.md))",
    default="every name",
)
EXTENSIONS = _declared(
    "TORCH_TRACE_EXTENSIONS",
    "import names of modules with readers, models or views of their own, comma-separated ([how](../add-a-model.md))",
    default="none",
)
GROUP = _declared(
    "TORCH_TRACE_GROUP",
    "`folders`: each folder is a run, each file name a worker. Otherwise the ranks of one job are one "
    "run, also across folders ([how](../http.md#runs))",
    default="by job",
)
SUMMARIES = _declared(
    "TORCH_TRACE_SUMMARIES",
    "folder or URL with [rank summaries](../summaries.md) from `torch-trace summarize --to`",
    default="next to the traces",
)
SCHEDULER = _declared(
    "TORCH_TRACE_SCHEDULER",
    "scheduler of a Dask cluster that computes missing parts of ranks. The address comes only from here "
    "or from `--scheduler`",
    default="none",
)
TLS_CA_FILE = _declared(
    "TORCH_TRACE_TLS_CA_FILE",
    "file with the authority's certificate, for a `tls://` scheduler",
    default="none",
)
TLS_CERT = _declared(
    "TORCH_TRACE_TLS_CERT",
    "file with our certificate, for a `tls://` scheduler",
    default="none",
)
TLS_KEY = _declared(
    "TORCH_TRACE_TLS_KEY",
    "file with the key of our certificate, for a `tls://` scheduler",
    default="none",
)
PERFETTO = _declared(
    "TORCH_TRACE_PERFETTO",
    "address of the Perfetto UI for *Open in Perfetto* (http or https), such as your own copy at "
    "`http://localhost:10000`. The public one never opens while this is set",
    default="`https://ui.perfetto.dev`",
)
NO_FRONTEND = _declared(
    "TORCH_TRACE_NO_FRONTEND",
    "`1` during installation: skip the page (the command line works without it)",
    default="",
)
