"""Recording tools: advice for findings and names used by frameworks."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Advice(msgspec.Struct, frozen=True):
    """The fix for one finding. ``references`` are titles and URLs of external documents."""

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
    """Pattern for event names. One matching event on the thread is enough."""
    names_only: bool = False
    """Whether all events of the thread must match."""


class StageFrames(msgspec.Struct, frozen=True):
    """Stack frames that identify training stages, as the tool writes them: ``path(line): function``.

    Patterns are RE2 regular expressions that match anywhere; "" matches nothing.
    """

    clear: str = ""
    """Clearing of gradients."""
    step: str = ""
    """Optimizer step."""
    backward: str = ""
    forward: str = ""
    """Module call."""
    setup: str = ""
    """Setup code. A module call inside it is not a forward pass."""
    data: str = ""
    """Loading a batch or moving it to the device."""
    recomputing: str = ""
    """Forward code that a backward pass runs again."""


class HostNames(msgspec.Struct, frozen=True):
    """Names of host work that delays a device: operators, annotations and Python calls.

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
    """Names of operators by function. Patterns are regular expressions that match anywhere; "" matches nothing."""

    product: str = ""
    """Matrix multiplication of inputs 0 and 1."""
    added_product: str = ""
    """Matrix multiplication of inputs 1 and 2, added to input 0."""
    batched_product: str = ""
    single: str = ""
    """Input types with 32-bit numbers."""
    half: str = ""
    """Input types with 16-bit numbers."""
    softmax: str = ""
    """Softmax, forward and backward, but not log-softmax."""
    updating: str = ""
    """Range of one optimizer step."""
    going_back: str = ""
    """Range of one backward pass."""
    ending: str = ""
    """Ranges of optimizer work other than the step, such as clearing gradients."""
    casting: str = ""
    learning: str = ""
    """Names that occur only in training: operators, annotations and device work of backward pass and optimizer."""
    laying_out: str = ""
    """Layout conversion, which copies only if the layout differs."""
    reducing: str = ""
    """Operators that sum a gradient over processes during the backward pass."""
    reshaping: str = ""
    """Reshaping that does not change data."""
    recomputing: str = ""
    """Backward operators that run forward code again."""


class ParallelNames(msgspec.Struct, frozen=True):
    """Names in distributed training. Patterns are regular expressions that match anywhere; "" matches nothing.

    Ranges are annotations, operators and Python calls enclosing a launch.
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
    """Ranges that send from one rank to another."""
    receiving: str = ""
    exchanging: str = ""
    """Ranges that send and receive at the same time."""
    micro_batch: str = ""
    """Ranges of one micro-batch in one pipeline stage."""
    offloading: str = ""
    """Ranges that offload memory by copies between host and device."""
    routing: str = ""
    """Kernels and operators that sort tokens by expert."""
    experts: str = ""
    """Operators and kernels that multiply matrices of the experts."""
    dispatching: str = ""
    """Ranges and kernels that send tokens to their experts."""
    combining: str = ""
    """Ranges and kernels that return the experts' results."""
    dimensions: tuple[tuple[str, str], ...] = ()
    """Parallel dimensions (tensor, pipeline, data, ...), each with a pattern for group descriptions.

    Several may match.
    """
    split_sizes: tuple[str, str] = ("", "")
    """Keys of the extra columns with the sizes sent to and received from each rank."""


class CompiledNames(msgspec.Struct, frozen=True):
    """Names in compiled code. Patterns are regular expressions that match anywhere; "" matches nothing."""

    lookup: str = ""
    """Guard checks that look up a compiled version."""
    compile_id: str = ""
    """Ranges during compilation whose name contains the compile id. The group is that id."""
    wrapping: str = ""
    """Ranges between the call of compiled code and its graphs."""
    resumed: str = ""
    """Frame of a function resumed after a graph break. Groups: file, interrupted function, line."""
    kernel: str = ""
    """Name of a generated kernel. Groups: code of its kind (optional), and its operators."""
    kinds: tuple[tuple[str, str], ...] = ()
    """Kind codes of generated kernels, and their meaning."""
    operators: tuple[str, ...] = ()
    """Operators with an underscore in their name. Underscores also separate operators."""
    file: str = ""
    """Key of the extra column with the source file of a generated kernel."""


class KernelFacts(msgspec.Struct, frozen=True):
    """Names of kernel properties in profiles (see ``OpenColumn``). The first one available is used."""

    type: tuple[str, ...] = ()
    core: tuple[str, ...] = ()
    """Kind of device core that runs the kernel."""
    shapes: tuple[str, ...] = ()
    step: tuple[str, ...] = ()
    """Number of the step in which the kernel ran."""
    counted: tuple[str, ...] = ()
    """Kinds of ``core`` that the tool's own operator tables list separately."""
    counted_word: str = ""
    """Display name of these cores."""
    first: tuple[str, ...] = ()
    """Default columns in a list of kernels."""


class StepPattern(msgspec.Struct, frozen=True):
    """Annotation names of server iterations. If several patterns match a name, their data is combined.

    ``regex`` is an RE2 expression. Its named groups are listed in ``GROUPS`` of
    ``model/trace/steps/annotations.py``.
    """

    framework: str
    regex: str
    modes: tuple[tuple[str, str], ...] = ()
    """Mode for each text of the group ``mode``. If empty, the text itself is the mode."""
    mode: str = ""
    """Mode of matches whose name does not contain one."""
    speculative: tuple[str, ...] = ()
    """Texts of the group ``mode`` that mean speculative decoding, with an unknown number of tokens per request."""
    source: str = ""
    """Repository and file where the framework writes these names."""
    checked: str = ""
    """A real trace file with such names; "" if the pattern was never checked."""


class Recorder(msgspec.Struct, frozen=True):
    """Names used by one recording tool, and advice for its users."""

    id: str = ""
    name: str = ""
    advice: Mapping[str, Advice] = msgspec.field(default_factory=dict)
    """Keys are rule ids, missing views (``view.kernels``), or a rule and its case (``.inference``)."""
    threads: tuple[ThreadRole, ...] = ()
    """Roles of threads in display order. The first match is used."""
    packages: tuple[str, ...] = ()
    """The framework's own Python packages. Users cannot change their code."""
    stages: StageFrames = StageFrames()
    host: HostNames = HostNames()
    operators: OperatorNames = OperatorNames()
    kernels: KernelFacts = KernelFacts()
    ranges_are_calls: bool = False
    """Whether the tool's own tables count ranges in the operator category as operator calls."""
    compiled: CompiledNames = CompiledNames()
    lacks: str = ""
    """Data that traces of this tool and format never contain; "" if none."""
    steps: tuple[StepPattern, ...] = ()
    """Annotations that mark steps if the profiler did not mark any."""
    parallel: ParallelNames = ParallelNames()
    iterating: str = ""
    """Names in programs with unmarked iterations (servers, image pipelines): frames, operators, annotations.

    An RE2 regular expression that matches anywhere; "" matches nothing.
    """
    marks: tuple[tuple[str, str], ...] = ()
    """Servers, each with an RE2 expression for the start of its step names."""
    numbers_operators: bool = False
    """Whether external ids count operators and annotations without gaps, except between blocks of ids of different
    threads.
    """

    def todo(self, finding: str) -> str:
        """Returns the fix for a finding; "" if the tool has none."""
        advice = self.advice.get(finding)
        return advice.todo if advice else ""

    def references(self, finding: str) -> tuple[tuple[str, str], ...]:
        """Returns titles and URLs of documents about a finding."""
        advice = self.advice.get(finding)
        return advice.references if advice else ()


UNKNOWN_RECORDER = Recorder()
