"""Recording tools: advice for findings and names used by frameworks."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Advice(msgspec.Struct, frozen=True):
    """The fix for one finding. ``references`` has the titles and URLs of external documents."""

    todo: str
    references: tuple[tuple[str, str], ...] = ()


# Entry for findings that this tool cannot fix. A test reports findings without an entry.
NO_ADVICE = Advice("")


class ThreadRole(msgspec.Struct, frozen=True):
    """The role of a framework thread, recognized by its name or its events.

    Patterns are RE2 regular expressions that match anywhere; "" matches nothing.
    """

    title: str
    threads: str = ""
    """Pattern for thread names."""
    events: str = ""
    """Pattern for event names. A thread has the role if at least one of its events matches."""
    all_must_match: bool = False
    """Whether all events of the thread must match."""


class StageFrames(msgspec.Struct, frozen=True):
    """Stack frames that identify training stages. Frames are texts such as ``path(line): function``.

    Patterns are RE2 regular expressions that match anywhere; "" matches nothing.
    """

    clear: str = ""
    """Clearing of gradients."""
    step: str = ""
    """Optimizer step."""
    backward: str = ""
    forward: str = ""
    """Call of a module."""
    setup: str = ""
    """Setup code. A module call inside setup code is not a forward pass."""
    data: str = ""
    """Loading a batch, or moving it to the device."""
    recomputing: str = ""
    """Forward code that a backward pass runs again."""


class HostNames(msgspec.Struct, frozen=True):
    """Names of operators, annotations and Python calls on the CPU that make a device wait.

    Patterns are RE2 regular expressions that match anywhere; "" matches nothing.
    """

    compiling: str = ""
    collecting: str = ""
    """Garbage collection in Python."""
    profiling: str = ""
    loading: str = ""
    """Loading a batch in the training thread."""
    awaiting: str = ""
    """Waiting for a batch from worker processes."""
    deterministic: str = ""
    """Backward operators that may wait for the device in deterministic mode."""
    handing_over: str = ""
    """Runtime calls that wait for another thread of the framework."""


class OperatorNames(msgspec.Struct, frozen=True):
    """Names of operators, grouped by what they do.

    Patterns are regular expressions that match anywhere; "" matches nothing.
    """

    product: str = ""
    """Matrix multiplication of inputs 0 and 1."""
    added_product: str = ""
    """Matrix multiplication of inputs 1 and 2, added to input 0."""
    batched_product: str = ""
    single: str = ""
    """Input types that are 32-bit numbers."""
    half: str = ""
    """Input types that are 16-bit numbers."""
    softmax: str = ""
    """Softmax, forward and backward, but not log-softmax."""
    updating: str = ""
    """Range of one optimizer step."""
    going_back: str = ""
    """Range of one backward pass."""
    ending: str = ""
    """Ranges of optimizer work outside the optimizer step, such as clearing gradients."""
    casting: str = ""
    learning: str = ""
    """Names of operators, annotations and device work that occur only in training: in the backward pass or the
    optimizer.
    """
    laying_out: str = ""
    """Operators that convert the layout. They copy data only if the layout differs."""
    reducing: str = ""
    """Operators that sum a gradient over all processes during the backward pass."""
    reshaping: str = ""
    """Operators that reshape a tensor but do not change its data."""
    recomputing: str = ""
    """Backward operators that run forward code again."""


class ParallelNames(msgspec.Struct, frozen=True):
    """Names used in distributed training. Patterns are regular expressions that match anywhere; "" matches nothing.

    Ranges are annotations, operators and Python calls that enclose a launch.
    """

    sharding: str = ""
    """Ranges that gather, reduce, copy or move shards of parameters or gradients."""
    ahead: str = ""
    """Ranges that prefetch parameters."""
    copying_in: str = ""
    """Ranges that copy shards into send buffers."""
    copying_out: str = ""
    """Ranges that copy gathered data to its destination."""
    sending: str = ""
    """Ranges that send data from one rank to another."""
    receiving: str = ""
    exchanging: str = ""
    """Ranges that send and receive data at the same time."""
    micro_batch: str = ""
    """Ranges of one micro-batch in one pipeline stage."""
    offloading: str = ""
    """Ranges that copy data between host and device to offload memory."""
    routing: str = ""
    """Kernels and operators that sort tokens by expert."""
    experts: str = ""
    """Operators and kernels that multiply the matrices of experts."""
    dispatching: str = ""
    """Ranges and kernels that send tokens to their experts."""
    combining: str = ""
    """Ranges and kernels that return the experts' results."""
    dimensions: tuple[tuple[str, str], ...] = ()
    """Parallel dimensions (tensor, pipeline, data, ...), each with a pattern for group descriptions.

    A description may match several.
    """
    split_sizes: tuple[str, str] = ("", "")
    """Keys of two extra columns: the sizes sent to each rank, and the sizes received from each rank."""


class CompiledNames(msgspec.Struct, frozen=True):
    """Names in compiled code. Patterns are regular expressions that match anywhere; "" matches nothing."""

    lookup: str = ""
    """Guard checks that search for a compiled version."""
    compile_id: str = ""
    """Ranges during compilation whose name contains the compile id. The regex group matches that id."""
    wrapping: str = ""
    """Ranges that run between the call of compiled code and its graphs."""
    resumed: str = ""
    """Stack frame of a function that resumes after a graph break. Regex groups: file, interrupted function, line."""
    kernel: str = ""
    """Name of a generated kernel. Regex groups: code of the kernel's kind (optional), and the kernel's operators."""
    kinds: tuple[tuple[str, str], ...] = ()
    """Codes for the kinds of generated kernels, each with its meaning."""
    operators: tuple[str, ...] = ()
    """Operators whose own name contains an underscore. In kernel names, underscores also separate operators."""
    file: str = ""
    """Key of the extra column that has the source file of a generated kernel."""


class KernelFacts(msgspec.Struct, frozen=True):
    """Names of kernel properties in profiles (see ``OpenColumn``).

    If there are several names, the first one in the profile is used.
    """

    type: tuple[str, ...] = ()
    core: tuple[str, ...] = ()
    """Kind of device core that runs the kernel."""
    shapes: tuple[str, ...] = ()
    step: tuple[str, ...] = ()
    """Number of the step in which the kernel ran."""
    counted: tuple[str, ...] = ()
    """Values of ``core`` that the tool's own operator tables list separately."""
    counted_word: str = ""
    """Display name of the cores in ``counted``."""
    first: tuple[str, ...] = ()
    """Columns that a list of kernels shows by default."""


class StepPattern(msgspec.Struct, frozen=True):
    """Annotation names of server iterations. If a name matches several patterns, their data is combined.

    ``regex`` is an RE2 expression. The allowed named groups are in ``GROUPS`` of
    ``model/trace/steps/annotations.py``.
    """

    framework: str
    regex: str
    modes: tuple[tuple[str, str], ...] = ()
    """Mode for each text that the group ``mode`` can match. If empty, the text itself is the mode."""
    mode: str = ""
    """Mode of a matching name that does not itself contain a mode."""
    speculative: tuple[str, ...] = ()
    """Texts of the group ``mode`` that mean speculative decoding. The number of tokens per request is then unknown."""
    source: str = ""
    """Repository and file of the framework's code that writes these names."""
    checked: str = ""
    """A real trace file that contains such names; "" if the pattern was never checked on one."""


class Recorder(msgspec.Struct, frozen=True):
    """Names that one recording tool uses, and advice for its users."""

    id: str = ""
    name: str = ""
    advice: Mapping[str, Advice] = msgspec.field(default_factory=dict)
    """Advice by key: a rule id, a rule id and its case (``.inference``), or a missing view (``view.kernels``)."""
    threads: tuple[ThreadRole, ...] = ()
    """Roles of threads in display order. A thread has the first role that matches."""
    packages: tuple[str, ...] = ()
    """Python packages of the framework itself. Users cannot change their code."""
    stages: StageFrames = StageFrames()
    host: HostNames = HostNames()
    operators: OperatorNames = OperatorNames()
    kernels: KernelFacts = KernelFacts()
    ranges_are_calls: bool = False
    """Whether the tool's own tables also list ranges of the operator category as operator calls."""
    compiled: CompiledNames = CompiledNames()
    lacks: str = ""
    """Data that traces of this tool and format never contain, as text; "" if there is none."""
    steps: tuple[StepPattern, ...] = ()
    """Annotations that mark steps. They are used if the profiler did not mark any."""
    parallel: ParallelNames = ParallelNames()
    iterating: str = ""
    """Names of frames, operators and annotations in programs whose iterations are not marked (servers, image
    pipelines).

    An RE2 regular expression that matches anywhere; "" matches nothing.
    """
    marks: tuple[tuple[str, str], ...] = ()
    """Servers, each with an RE2 expression for the start of the server's step names."""
    numbers_operators: bool = False
    """Whether operators and annotations have consecutive external ids, with gaps only where another thread starts a
    block of ids.
    """

    def todo(self, finding: str) -> str:
        """Returns the fix for a finding; "" if the tool has none."""
        advice = self.advice.get(finding)
        return advice.todo if advice else ""

    def references(self, finding: str) -> tuple[tuple[str, str], ...]:
        """Returns the titles and URLs of documents about a finding."""
        advice = self.advice.get(finding)
        return advice.references if advice else ()


UNKNOWN_RECORDER = Recorder()
