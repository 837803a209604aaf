"""Recording helpers: ranges for module calls, and a configured profiler.

In one file: the helpers share the late import and the options of the profiler.

PyTorch is imported at the first call. docs/record.md contains recipes and the cost of each option.
"""

from __future__ import annotations

import signal
import tempfile
import threading
import time
import uuid
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import ContextDecorator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tb_plugin.errors import BadRequest, MissingPackage

# Prefixes of range names. Readers treat ranges with the first prefix as module calls.
FORWARD, BACKWARD = "nn.Module: ", "nn.Module backward: "
# Uncompressed trace size that causes a warning: two to three million events.
LARGE_MB = 1_000
# Attributes in which wrappers store their module. They are omitted from module names.
_WRAPPED = {"_fsdp_wrapped_module", "_checkpoint_wrapped_module"}
# Wrappers that store their module as ``module``.
_REPLICATED = {"DataParallel", "DistributedDataParallel"}
# File that requests a recording, and the file that names the first step of the last one.
REQUEST, PLAN = "record-now", "recording"


def annotate(model: Any) -> ModuleRanges:
    """Returns a context manager and decorator that records all module calls of ``model`` by name.

    While a profiler records, a forward call is recorded as the range ``nn.Module: blocks.0.fc (Linear)``, and its
    backward pass as the range ``nn.Module backward: blocks.0.fc (Linear)``. Ranges are nested like the calls.
    Wrappers such as DDP and FSDP do not appear in the names. A module that is compiled as a whole has one range.
    Modules inside compiled code have no ranges, which causes a warning.

    Raises MissingPackage without PyTorch 2.3 or newer, BadRequest if ``model`` is not an ``nn.Module``.
    """
    return ModuleRanges(model)


def profile(
    directory: str | Path,
    *,
    wait: int = 2,
    warmup: int = 1,
    active: int = 3,
    repeat: int = 1,
    skip_first: int = 0,
    activities: Iterable[Any] | None = None,
    record_shapes: bool = True,
    profile_memory: bool = True,
    with_stack: bool = True,
    with_modules: bool = False,
    worker_name: str | None = None,
    use_gzip: bool = True,
    large_mb: int = LARGE_MB,
) -> Any:
    """Returns a ``torch.profiler.profile`` that writes traces for all views into ``directory``.

    Call its ``step()`` after each iteration. The profiler skips ``skip_first`` steps once. It then repeats a cycle
    ``repeat`` times (0 = until the end). In each cycle, it skips ``wait`` steps, warms up for ``warmup`` steps, and
    records ``active`` steps into a file ``<worker>.<time>.pt.trace.json``.

    The last skipped step of the first cycle is recorded to measure its size, and then discarded. If the trace of
    the active steps would be larger than ``large_mb``, a warning is issued. If ``wait`` is 0, the size is not
    measured.

    Raises MissingPackage without PyTorch, BadRequest for an invalid schedule.
    """
    if wait < 0 or warmup < 0 or active < 1 or repeat < 0 or skip_first < 0:
        raise BadRequest("The schedule is not valid.", "profile", "Use active=1 or more, and no negative numbers.")
    _torch()
    import torch.profiler as torch_profiler

    planned = torch_profiler.schedule(wait=wait, warmup=warmup, active=active, repeat=repeat, skip_first=skip_first)
    probe = skip_first + wait - 1 if wait else None
    write = torch_profiler.tensorboard_trace_handler(str(directory), worker_name, use_gzip)
    measured = wait == 0

    def schedule(step: int) -> Any:
        return torch_profiler.ProfilerAction.RECORD_AND_SAVE if step == probe else planned(step)

    def ready(profiler: Any) -> None:
        nonlocal measured
        if not measured:
            measured = True
            _warn_of_size(active * _size_of(profiler), active, large_mb)
            profiler.profiler = None  # discards the measured step; otherwise PyTorch warns that it will be lost
        else:
            write(profiler)

    return torch_profiler.profile(
        activities=activities,
        schedule=schedule,
        on_trace_ready=ready,
        record_shapes=record_shapes,
        profile_memory=profile_memory,
        with_stack=with_stack,
        with_modules=with_modules,
    )


def on_demand(
    directory: str | Path,
    *,
    steps: int = 5,
    warmup: int = 1,
    signal_number: int | None = None,
    check_seconds: float = 1.0,
    **options: Any,
) -> OnDemand:
    """Returns a recorder that does nothing until it gets a request, and then records ``steps`` steps.

    Call its ``step()`` after each iteration. A request is a file ``record-now`` in ``directory``, looked for at most
    every ``check_seconds``. If several ranks share the directory, all of them record the same steps. If
    ``signal_number`` is given, such as ``signal.SIGUSR2``, this signal makes one process record. ``options`` are
    those of ``profile``, without its schedule. If a recording fails, there is a warning, and the training continues.

    Raises MissingPackage without PyTorch, BadRequest for invalid numbers, a directory that cannot be created, or a
    signal outside the main thread.
    """
    return OnDemand(directory, steps, warmup, signal_number, check_seconds, options)


class OnDemand:
    """Recorder returned by ``on_demand``. ``close()``, or the end of ``with``, writes a recording that still runs."""

    def __init__(
        self,
        directory: str | Path,
        steps: int,
        warmup: int,
        signal_number: int | None,
        check_seconds: float,
        options: dict[str, Any],
    ) -> None:
        self._make = partial(profile, directory, wait=0, warmup=warmup, active=steps, **options)
        self._make()  # reports invalid options now instead of in the middle of the training
        self._directory = Path(directory)
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadRequest(
                f"The directory cannot be created: {error}", str(directory), "Choose another one."
            ) from error
        self._count = warmup + steps
        self._check_seconds = check_seconds
        self._next_check = time.monotonic() + check_seconds
        self._step = self._checked_step = 0
        self._start_step: int | None = None
        self._answered = _identity(self._directory / PLAN)
        self._profiler: Any = None
        self._left = 0
        self._signalled = False
        self._signal, self._handler_before = signal_number, None
        if signal_number is not None:
            try:
                self._handler_before = signal.signal(signal_number, self._on_signal)
            except ValueError as error:
                do = "Create the recorder in the main thread, with a signal of this system."
                raise BadRequest(f"The signal cannot be used: {error}", str(signal_number), do) from error

    def __enter__(self) -> OnDemand:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def step(self) -> None:
        """Counts an iteration of the training. Starts or ends a recording if needed."""
        self._step += 1
        if self._profiler is not None:
            self._advance()
            return
        if self._start_step is None and time.monotonic() >= self._next_check:
            self._look()
        if self._signalled or (self._start_step is not None and self._step >= self._start_step):
            self._signalled, self._start_step = False, None
            self._begin()

    def close(self) -> None:
        if self._profiler is not None:
            self._stop()
        if self._signal is not None:
            signal.signal(self._signal, self._handler_before)
            self._signal = None

    def _on_signal(self, *_: object) -> None:
        self._signalled = True

    def _look(self) -> None:
        """Turns a request into a plan, and takes the first step of a new plan."""
        plan = self._directory / PLAN
        # Other ranks look at other times, so they get two intervals to see the plan.
        ahead = 2 * (self._step - self._checked_step) if _world_size() > 1 else 0
        self._next_check, self._checked_step = time.monotonic() + self._check_seconds, self._step
        try:
            if (self._directory / REQUEST).exists():
                # Renaming succeeds on one rank only, and a plan always appears with its content.
                claimed = self._directory / f"{REQUEST}.{uuid.uuid4().hex}"
                try:
                    (self._directory / REQUEST).rename(claimed)
                except FileNotFoundError:
                    pass
                else:
                    claimed.write_text(f"{self._step + ahead}\n", encoding="utf-8")
                    claimed.replace(plan)
            identity = _identity(plan)
            if identity not in (None, self._answered):
                self._answered = identity
                self._start_step = int(plan.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            self._next_check = float("inf")
            warnings.warn(f"Recording on demand is off, because a request cannot be read: {error}", stacklevel=3)

    def _begin(self) -> None:
        try:
            profiler = self._make()
            # Steps have the numbers of the training, so that ranks that start late stay comparable.
            first, planned = self._step, profiler.schedule
            profiler.schedule = lambda step: planned(step - first)
            profiler.step_num = first
            profiler.start()
        except Exception as error:  # a failed recording must not end the training
            _warn_of_failure(error)
            return
        self._profiler, self._left = profiler, self._count

    def _advance(self) -> None:
        self._left -= 1
        try:
            self._profiler.step()
        except Exception as error:  # a failed recording must not end the training
            _warn_of_failure(error)
            self._left = 0
        if self._left == 0:
            self._stop()

    def _stop(self) -> None:
        profiler, self._profiler = self._profiler, None
        try:
            profiler.stop()
        except Exception as error:  # a failed recording must not end the training
            _warn_of_failure(error)


def _warn_of_failure(error: Exception) -> None:
    warnings.warn(f"The recording failed, but the training continues: {error}", stacklevel=4)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_ino


def _world_size() -> int:
    distributed = _torch().distributed
    ready = distributed.is_available() and distributed.is_initialized()
    return int(distributed.get_world_size()) if ready else 1


def _size_of(profiler: Any) -> int:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        profiler.export_chrome_trace(str(path))
        return path.stat().st_size


def _warn_of_size(size: int, active: int, large_mb: int) -> None:
    if size <= large_mb * 1_000_000:
        return
    fits = max(1, large_mb * 1_000_000 * active // size)
    warnings.warn(
        f"{active} recorded steps will produce a trace of about {size // 1_000_000:,} MB, more than {large_mb:,} MB "
        f"(large_mb). Writing and opening this trace will be slow. Record fewer steps (active={fits} fits), or disable "
        "with_stack or profile_memory.",
        stacklevel=2,
    )


def _torch() -> Any:
    try:
        import torch
    except ModuleNotFoundError as error:
        raise MissingPackage("Recording needs PyTorch.", "", "Install torch where the training runs.") from error
    return torch


@dataclass(eq=False, slots=True, weakref_slot=True)
class _Call:
    """A forward call of a module. The hooks on the autograd nodes of the call keep this object alive."""

    name: str
    above: _Call | None
    inputs: set[Any] = field(default_factory=set)
    """Autograd nodes that created the inputs. If an input is a view, also the node that created its base."""
    waits: int = 0
    """Number of autograd nodes of the inputs. The backward pass of the call ends when it has reached all of them."""
    left: int = 0
    range: Any = None
    hooks: list[Any] = field(default_factory=list)

    def forget(self) -> None:
        for hook in self.hooks:
            hook.remove()
        self.hooks.clear()


@dataclass(eq=False, slots=True)
class _Open:
    call: _Call
    range: Any
    task: int


class _Stacks(threading.local):
    def __init__(self, every: list[list[_Open]]) -> None:
        self.forward: list[_Call] = []
        self.backward: list[_Open] = []
        every.append(self.backward)


class ModuleRanges(ContextDecorator):
    """Context manager returned by ``annotate``. It hooks the modules while it is active."""

    def __init__(self, model: Any) -> None:
        torch = _torch()
        if not hasattr(torch.compiler, "is_compiling"):
            raise MissingPackage("annotate needs PyTorch 2.3 or newer.", "", "Update torch where the training runs.")
        if not isinstance(model, torch.nn.Module):
            raise BadRequest("annotate requires an nn.Module.", type(model).__name__, "Pass the model.")
        self._model = model
        self._tensor = torch.Tensor
        self._range = torch.profiler.record_function
        self._recording: Callable[[], bool] = torch.autograd._profiler_enabled
        self._task: Callable[[], int] = torch._C._current_graph_task_id
        self._at_end: Callable[[Callable[[], None]], None] = torch.autograd.Variable._execution_engine.queue_callback
        self._entered = 0
        self._hooks: list[Any] = []
        self._calls: weakref.WeakSet[_Call] = weakref.WeakSet()
        self._every: list[list[_Open]] = []
        self._here = _Stacks(self._every)
        self._tasks: set[int] = set()

    def __enter__(self) -> ModuleRanges:
        self._entered += 1
        if self._entered == 1:
            modules = list(unique_modules(self._model))
            for module, name in modules:
                if not _compiled_in_place(module):
                    self._install(module, name)
            if compiled := [name for module, name in modules if _compiled(module)]:
                shown = ", ".join(compiled[:3]) + ", ..." * (len(compiled) > 3)
                warnings.warn(f"Modules inside compiled code get no ranges of their own: {shown}.", stacklevel=2)
        return self

    def __exit__(self, *_: object) -> None:
        self._entered -= 1
        if self._entered:
            return
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        for call in list(self._calls):
            call.forget()
        for stack in self._every:
            _close(stack, 0)
        self._close_calls(0)

    def _install(self, module: Any, name: str) -> None:
        from torch.compiler import is_compiling

        # torch.compile traces the hooks of modules. In compiled code they do nothing and cause no graph break.
        def before(_module: Any, args: Any, kwargs: Any) -> None:
            if not is_compiling():
                self._begin(name, (args, kwargs))

        def after(_module: Any, _args: Any, output: Any) -> None:
            if not is_compiling():
                self._end(name, output)

        self._hooks.append(module.register_forward_pre_hook(before, prepend=True, with_kwargs=True))
        self._hooks.append(module.register_forward_hook(after, always_call=True))

    def _made(self, value: Any) -> tuple[set[Any], set[Any]]:
        """Returns the autograd nodes that created the tensors in ``value``, and the nodes that created their view
        bases.

        An in-place operator on a view replaces the node of the view in the graph, but not the node of the base.
        """
        tensors = list(_tensors(value, self._tensor))
        bases = (tensor._base for tensor in tensors)
        own = {tensor.grad_fn for tensor in tensors}
        return own - {None}, {base.grad_fn for base in bases if base is not None} - {None}

    def _begin(self, name: str, given: Any) -> None:
        if not self._recording():
            return
        calls, opened = self._here.forward, self._here.backward
        # Modules recomputed during the backward pass are nested in its open range.
        recomputed_in = opened[-1].call if opened and self._task() != -1 else None
        call = _Call(name, calls[-1] if calls else recomputed_in)
        own, below = self._made(given)
        call.inputs = own | below
        call.waits = len(own)
        call.hooks += [node.register_prehook(partial(self._reached, call)) for node in own]
        calls.append(call)
        self._calls.add(call)
        call.range = self._range(FORWARD + name)
        call.range.__enter__()

    def _end(self, name: str, output: Any) -> None:
        calls = self._here.forward
        at = next((at for at in range(len(calls) - 1, -1, -1) if calls[at].name is name), None)
        if at is None:  # the profiler started during the call
            return
        call = calls[at]
        self._close_calls(at)
        # A module that returns its input unchanged has no backward pass.
        own, below = self._made(output)
        made = (own | below) - call.inputs
        call.inputs = set()
        if made:
            call.hooks += [node.register_prehook(partial(self._gone_back, call)) for node in made]
        else:
            call.forget()

    def _close_calls(self, since: int) -> None:
        calls = self._here.forward
        for call in reversed(calls[since:]):
            call.range.__exit__(None, None, None)
        del calls[since:]

    def _gone_back(self, call: _Call, _gradients: Any) -> None:
        if not self._recording():
            return
        stack = self._here.backward
        inside = {opened.call: depth for depth, opened in enumerate(stack, 1)}
        if call in inside:
            return
        missing, above = [call], call.above
        while above is not None and above not in inside:
            missing.append(above)
            above = above.above
        _close(stack, inside[above] if above is not None else 0)
        task = self._task()
        if task not in self._tasks:
            self._tasks.add(task)
            self._at_end(partial(self._pass_over, task))
        for one in reversed(missing):
            one.left = one.waits
            stack.append(_Open(one, self._range(BACKWARD + one.name), task))
            stack[-1].range.__enter__()

    def _reached(self, call: _Call, _gradients: Any) -> None:
        stack = self._here.backward
        depth = next((depth for depth, opened in enumerate(stack) if opened.call is call), None)
        if depth is not None:
            call.left -= 1
            if call.left <= 0:
                _close(stack, depth)

    def _pass_over(self, task: int) -> None:
        self._tasks.discard(task)
        for stack in self._every:
            first = next((depth for depth, opened in enumerate(stack) if opened.task == task), len(stack))
            _close(stack, first)


def _close(stack: list[_Open], depth: int) -> None:
    while len(stack) > depth:
        stack.pop().range.__exit__(None, None, None)


def _tensors(value: Any, kind: type) -> Iterator[Any]:
    if isinstance(value, kind):
        yield value
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _tensors(one, kind)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()), kind)
    elif hasattr(value, "__dataclass_fields__"):
        yield from _tensors([getattr(value, name) for name in value.__dataclass_fields__], kind)


def _compiled_in_place(module: Any) -> bool:
    return getattr(module, "_compiled_call_impl", None) is not None


def _compiled(module: Any) -> bool:
    return _compiled_in_place(module) or hasattr(module, "_orig_mod")


def unique_modules(model: Any) -> Iterator[tuple[Any, str]]:
    """Yields modules with path and class, without wrappers and modules inside compiled ones."""
    seen: set[int] = set()
    waiting = [(model, "")]
    while waiting:
        module, path = waiting.pop()
        if id(module) in seen:
            continue
        seen.add(id(module))
        kind = type(module).__name__
        yield module, f"{path} ({kind})" if path else kind
        if _compiled(module):
            continue
        children = []
        for name, child in module.named_children():
            hidden = name in _WRAPPED or (name == "module" and kind in _REPLICATED)
            children.append((child, path if hidden else f"{path}.{name}" if path else name))
        waiting += reversed(children)
