#!/usr/bin/env python3
"""Records samples/jax_cpu: two steps of a small training with JAX on the CPU, by its own profiler.

Usage: record_jax_cpu.py FOLDER

JAX writes an XPlane file and, where it is asked to, the same as Chrome's trace JSON; the second is kept.
"""

from __future__ import annotations

import gzip
import shutil
import sys
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp


@jax.jit
def step(weights: jax.Array, batch: jax.Array) -> jax.Array:
    def loss(w: jax.Array) -> jax.Array:
        return jnp.mean(jnp.tanh(batch @ w) ** 2)

    return weights - 0.1 * jax.grad(loss)(weights)


def main(folder: Path) -> None:
    weights, batch = jnp.ones((64, 64)), jnp.ones((32, 64))
    step(weights, batch).block_until_ready()
    with tempfile.TemporaryDirectory() as scratch:
        with jax.profiler.trace(scratch, create_perfetto_trace=True):
            for number in range(2):
                with jax.profiler.StepTraceAnnotation("train", step_num=number):
                    weights = step(weights, batch)
                weights.block_until_ready()
        found = next(Path(scratch).rglob("perfetto_trace.json.gz"))
        run = folder / "jax_cpu"
        run.mkdir(parents=True, exist_ok=True)
        text = (
            gzip.decompress(found.read_bytes())
            .replace(sys.prefix.encode(), b"/usr")
            .replace(sys.base_prefix.encode(), b"/usr")
        )
        (run / found.name).write_bytes(gzip.compress(text, 9, mtime=0))
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
