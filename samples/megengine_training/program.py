"""The program that each process runs, and all processes played together."""

from __future__ import annotations

from collections.abc import Generator

from events import Json, resumed

from .config import BATCH, CLASSES, Config
from .operators import GRADIENTS, MODES_OF_ELEMWISE
from .process import Operation, Process, Tensor


class Training:
    """The program that each process runs."""

    def __init__(self, process: Process) -> None:
        self.p = process
        self.config = process.config
        self.weights: dict[str, Tensor] = {}
        widths = [3, *(16 * 2**index for index in range(self.config.blocks))]
        for index in range(self.config.blocks):
            self.weights |= {
                f"block{index}.c": process.declare("", (widths[index + 1], widths[index], 3, 3)),
                f"block{index}.c.bias": process.declare("", (1, widths[index + 1], 1, 1)),
                f"block{index}.bn": process.declare("", (1, widths[index + 1], 1, 1)),
            }
        self.features = widths[-1] * 16 * 16
        self.weights |= {
            "fc": process.declare("", (CLASSES, self.features)),
            "fc.bias": process.declare("", (CLASSES,)),
        }
        self.tape: list[tuple[Operation, Tensor | None]] = []
        process.write(50_000, "worker", "B", "StartProfile")
        for weight in self.weights.values():
            process.produce(weight)
        process.ahead(0)
        process.write(process.spend("worker", 700), "worker", "E", "StartProfile")

    def run(
        self, name: str, inputs: list[Tensor], shape: tuple[int, ...], weight: str = ""
    ) -> Generator[int, int, Tensor]:
        """Runs an operator that the backward pass comes back to."""
        given = [*inputs, *([self.weights[weight]] if weight else [])]
        operation = self.p.dispatch(name, given, [shape])
        self.tape.append((operation, self.weights.get(weight)))
        yield from self.p.execute(operation)
        return self.p.tensors[operation.outputs[0]]

    def forward(self, x: Tensor, y: Tensor) -> Generator[int, int, Tensor]:
        p = self.p
        p.frames += ["/opt/megengine/module/module.py , line 144, in __call__", "model.py , line 31, in forward"]
        for index in range(self.config.blocks):
            shape = (BATCH, self.weights[f"block{index}.c"].shape[0], 32, 32)
            with p.module(f"block{index}", 31):
                with p.module("c", 12):
                    x = yield from self.run("Convolution", [x], shape, f"block{index}.c")
                    x = yield from self.run("ADD", [x], shape, f"block{index}.c.bias")
                with p.module("bn", 13):
                    x = yield from self.run("BatchNorm", [x], shape, f"block{index}.bn")
                x = yield from self.run("RELU", [x], shape)
                if "reshapes" in self.config.faults:
                    for _ in range(3):
                        x = yield from self.reshape(x)
        x = yield from self.run("Pooling", [x], (BATCH, x.shape[1], 16, 16))
        x = yield from self.run("Reshape", [x], (BATCH, self.features))
        with p.module("fc", 34):
            x = yield from self.run("MatrixMul", [x], (BATCH, CLASSES), "fc")
            x = yield from self.run("ADD", [x], (BATCH, CLASSES), "fc.bias")
        del p.frames[-2:]
        if "wait" in self.config.faults:
            p.read(x, "train.py , line 47, in watch", planted=True)
        p.frames.append("/opt/megengine/functional/loss.py , line 207, in cross_entropy")
        high = yield from self.run("EXP", [x], x.shape)
        high = yield from self.run("Reduce", [high], (BATCH,))
        high = yield from self.run("LOG", [high], (BATCH,))
        chosen = yield from self.run("IndexingOneHot", [x, y], (BATCH,))
        loss = yield from self.run("SUB", [high, chosen], (BATCH,))
        loss = yield from self.run("Reduce", [loss], (1,))
        p.frames.pop()
        return loss

    def reshape(self, x: Tensor) -> Generator[int, int, Tensor]:
        """A planted fault: a reshape to the shape that the tensor has."""
        self.p.frames.append("model.py , line 17, in forward")
        if self.config.scopes:
            with self.p.scope("tensor.reshape"):
                x = yield from self.run("Reshape", [x], x.shape)
        else:
            x = yield from self.run("Reshape", [x], x.shape)
        self.p.frames.pop()
        self.p.unused_reshapes.append(self.p.operations[-1].id)
        return x

    def backward(self, loss: Tensor) -> Generator[int, int, dict[str, Tensor]]:
        """Goes back over the operators: a scope for each, and a sum over the processes for each weight."""
        p = self.p
        gradient, gradients = loss, dict[str, Tensor]()
        names = {weight.id: name for name, weight in self.weights.items()}
        with p.scope("backward"):
            for operation, weight in reversed(self.tape):
                scope = ("Elemwise" if operation.name in MODES_OF_ELEMWISE else operation.name) + "Backward"
                results: dict[str, Tensor] = {}
                with p.scope(scope, of=operation.id):
                    target = p.tensors[operation.inputs[0]]
                    for name, of in GRADIENTS[operation.name]:
                        shapes = {"input": target.shape, "weight": weight.shape if weight is not None else ()}
                        made = p.dispatch(name, [gradient, target], [shapes[one] for one in of.split()])
                        yield from p.execute(made)
                        results |= {
                            one: p.tensors[number] for one, number in zip(of.split(), made.outputs, strict=True)
                        }
                    gradient = results.get("input", gradient)
                if weight is not None:
                    gradients[names[weight.id]] = results["weight"]
                if weight is not None and self.config.ranks > 1:
                    serial = "serial_all_reduce" in self.config.faults
                    summed = p.dispatch("CollectiveComm", [gradients[names[weight.id]]], [weight.shape])
                    yield from p.execute(summed, "gpux:0" if serial else "gpux:1")
                    gradients[names[weight.id]] = p.tensors[summed.outputs[0]]
        return gradients

    def optimizer(self, gradients: dict[str, Tensor]) -> Generator[int, int, None]:
        p = self.p
        with p.scope("step", ("/opt/megengine/optimizer/sgd.py , line 95, in _updates",)):
            for name, gradient in gradients.items():
                weight = self.weights[name]
                scaled = p.dispatch("MUL", [gradient], [weight.shape])
                yield from p.execute(scaled)
                updated = p.dispatch("SUB", [weight, p.tensors[scaled.outputs[0]]], [weight.shape])
                yield from p.execute(updated)
                self.weights[name] = p.tensors[updated.outputs[0]]
                p.delete(weight)
        with p.scope("clear_grad"):
            pass

    def one_step(self) -> Generator[int, int, None]:
        p = self.p
        begin, kept = p.now["interpreter"], set(self.weights)
        before = set(p.tensors)
        x = p.put("data", (BATCH, 3, 32, 32))
        y = p.put("label", (BATCH,), "Int32")
        with p.scope("forward"):
            loss = yield from self.forward(x, y)
        gradients = yield from self.backward(loss)
        yield from self.optimizer(gradients)
        p.read(loss, "train.py , line 61, in train_step", planted=False)
        self.tape.clear()
        alive = {self.weights[name].id for name in kept}
        for number in sorted(set(p.tensors) - before - alive):
            p.delete(p.tensors[number])
        end = p.now["interpreter"]
        p.steps.append({"start_ns": begin, "end_ns": end, "dur_ns": end - begin})
        if p.step + 1 < self.config.steps:
            p.write(p.spend("interpreter", 40_000), "interpreter", "i", "StopStep")
            p.write(p.spend("worker", 40_000), "worker", "i", "StopStep")
        p.step += 1
        p.drawn.clear()

    def everything(self) -> Generator[int, int, None]:
        for _ in range(self.config.steps):
            yield from self.one_step()
        p = self.p
        p.write(p.spend("worker", 90_000), "worker", "B", "StopProfile")
        stop = p.spend("worker", 400_000)
        p.activities.sort(key=lambda activity: activity["start_ns"])
        if self.config.cupti:  # the buffers of CUPTI are read when the profile ends
            for activity in p.activities:
                _write_activity(p, activity, stop)
        p.level(p.spend("worker", 5_000), "worker", "gpu0:0_alloc_mem", p.allocated)
        p.write(p.spend("worker", 700), "worker", "E", "StopProfile")


def _write_activity(process: Process, activity: Json, at: int) -> None:
    lane, name, start, end = (
        f"stream of {activity['stream']}",
        activity["name"],
        activity["start_ns"],
        activity["end_ns"],
    )
    process.write(at, lane, "B", name, start, args=activity["args"])
    if activity["operator"] is None:
        process.flow(at, lane, "f", "CUPTILink", activity["correlation"], start)
    else:
        process.flow(at, lane, "f", "KernelLink", activity["correlation"], end)
    process.write(at, lane, "E", name, end, args=activity["args"])


def play(config: Config) -> list[Process]:
    """Plays all processes through, one after the other up to the next sum, which ends for all at once."""
    processes = [Process(config, rank) for rank in range(config.ranks)]
    programs = [Training(process).everything() for process in processes]
    waiting = [next(program, None) for program in programs]
    while any(ready is not None for ready in waiting):
        last = max(ready for ready in waiting if ready is not None)
        waiting = [resumed(program, last) for program in programs]
    return processes
