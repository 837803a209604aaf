"""Faults of what a training does twice: it keeps too little, and computes it again."""

from __future__ import annotations

from .faulty import Faulty, fault
from .model import Node


@fault("recomputation")
class Recomputation(Faulty):
    """Layers keep no activations: the backward pass runs them forward again. Mended, all layers keep theirs."""

    def block(self, number: int) -> None:
        layer = self.pace.device_ns / 3 / self.shape.layers
        count = min(max(1, round(self.part("recomputation") / layer)), self.shape.layers)
        if not self.every(count, number):
            super().block(number)
        elif self.drawn("recomputation: reentrant", 0, 1) < 0.5:
            self._reentrant(number)
        else:
            self._in_a_hook(number)

    def _in_a_hook(self, number: int) -> None:
        """The first node of the backward pass that wants a tensor finds it gone."""
        first = len(self.tape)
        super().block(number)
        if self.mended:
            return
        nodes = self.tape[first:]
        self._forget(nodes)
        wants = next(node for node in reversed(nodes) if node.parameters)
        run = wants.run

        def again() -> None:
            self.m.arrows = False
            for node, new in zip(nodes, self._again(number), strict=True):
                node.frees = new.frees
            self.m.arrows = True
            run()

        wants.run = again

    def _reentrant(self, number: int) -> None:
        """One node stands for the layer: it runs the layer forward, and then a backward pass of its own."""
        m, first = self.m, len(self.tape)
        if self.mended:
            with m.at("CheckpointFunction"):
                super().block(number)
            return
        tie = m.next_sequence()
        with m.op("CheckpointFunction", self.tokens3(), forward=tie):
            m.notes = False
            super().block(number)
            m.notes = True
        nodes = self.tape[first:]
        del self.tape[first:]
        self._forget(nodes)

        def run() -> None:
            again = self._again(number)
            for node, new in zip(nodes, again, strict=True):
                new.place = node.place
            outer, self.tape = self.tape, again
            self.run_tape()
            self.tape = outer

        self.tape.append(Node("CheckpointFunctionBackward", tie, run, [], (), m.place))

    def _forget(self, nodes: list[Node]) -> None:
        """Nothing is kept for these nodes."""
        for node in nodes:
            for block in node.frees:
                self.m.release(block)
            node.frees = []

    def _again(self, number: int) -> list[Node]:
        """Runs a layer forward once more: its nodes."""
        outer, self.tape = self.tape, []
        first = len(self.m.device_rows)
        with self.m.at("again"):
            super().block(number)
        self.count("runs")
        self.count_work(self.m.device_rows[first:])
        nodes, self.tape = self.tape, outer
        return nodes
