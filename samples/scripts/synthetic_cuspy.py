"""Write `cuspy_synthetic` and `cuspy_packets_synthetic`: invented columns of CUPTI through PyTorch 2.15's Cuspy exporters.

The host side is a recording: CPU_TRACE is a trace of a training step on the CPU with an annotation "my_forward".
usage: python synthetic_cuspy.py OUT_DIR CPU_TRACE        (two folders are created there; needs pip cupti-python)
"""

import json
import sys
from pathlib import Path

import numpy as np
from cupti.cupti import Driver_api_trace_cbid as D
from cupti.cupti import Runtime_api_trace_cbid as R
from torch.profiler._cuspy import trace as T

out = sys.argv[1]
cpu = sys.argv[2]
d = json.loads(Path(cpu).read_text())
base = d["baseTimeNanoseconds"]
ops = [e for e in d["traceEvents"] if e.get("cat") == "cpu_op"]
pid = ops[0]["pid"]
tid = ops[0]["tid"]
t0 = base + round(min(e["ts"] for e in ops) * 1000)
ann = next(e for e in d["traceEvents"] if e.get("cat") == "user_annotation" and e["name"] == "my_forward")
AE = ann["args"]["External id"]


def i64(*a):
    return np.asarray(a, dtype=np.int64)


def obj(*a):
    r = np.empty(len(a), dtype=object)
    r[:] = list(a)
    return r


def us(x):
    return t0 + int(x * 1000)


G = 5 << 32  # exec graph id 5
# rows: (name,start,end,stream,corr,gnid,annotation,lane,lane_name)
K = [
    ('void gemm<float>(float const*, "q")', 100, 150, 7, 11, 0, None, 7, None),
    ("vectorized_add_kernel", 160, 180, 7, 12, 0, None, 7, None),
    ("graph_k0", 400, 420, 31, 20, G | 1, {"name": "layers.0.attn", "dtype": "bf16"}, 100000, "lane A"),
    ("graph_k1", 420, 440, 32, 20, G | 2, [{"name": "layers.0.mlp"}], 100001, "lane B"),
    ("ncclDevKernel_AllReduce", 445, 500, 33, 20, G | 3, None, 100001, "lane B"),
    ("graph_k0", 700, 720, 31, 21, G | 1, {"name": "layers.0.attn", "dtype": "bf16"}, 100000, "lane A"),
    ("graph_k1", 715, 740, 32, 21, G | 2, [{"name": "layers.0.mlp"}], 100001, "lane B"),
]
n = len(K)
z = np.zeros(n, np.int64)
kern = {
    "start_ns": i64(*[us(k[1]) for k in K]),
    "end_ns": i64(*[us(k[2]) for k in K]),
    "device_id": z,
    "context_id": z + 1,
    "stream_id": i64(*[k[3] for k in K]),
    "correlation_id": i64(*[k[4] for k in K]),
    "graph_node_id": i64(*[k[5] for k in K]),
    "source_graph_node_id": z,
    "graph_id": i64(*[k[5] >> 32 for k in K]),
    "name": obj(*[k[0] for k in K]),
    "annotation": obj(*[k[6] for k in K]),
    "grid_x": z + 10,
    "grid_y": z + 2,
    "grid_z": z + 1,
    "block_x": z + 128,
    "block_y": z + 1,
    "block_z": z + 1,
    "registers_per_thread": z + 40,
    "static_shared_memory": z + 1024,
    "dynamic_shared_memory": z + 512,
    "priority": z,
    "queued": z,
    "channel": z + 3,
    "channel_type": z + 1,
    "logical_lane": i64(*[k[7] for k in K]),
    "lane_name": obj(*[k[8] for k in K]),
    "metadata": obj(
        None,
        None,
        None,
        None,
        '{"Collective name":"all_reduce","dtype":"Float","In msg nelems":1024,"Out msg nelems":1024,'
        '"Group size":2,"Process Group Ranks":[0,1]}',
        None,
        None,
    ),
}
o = np.zeros(1, np.int64)
memcpy = {
    "start_ns": i64(us(20)),
    "end_ns": i64(us(40)),
    "device_id": o,
    "context_id": o + 1,
    "stream_id": o + 7,
    "correlation_id": o + 10,
    "graph_node_id": o,
    "source_graph_node_id": o,
    "graph_id": o,
    "annotation": obj(None),
    "bytes": o + 4096,
    "copy_kind": o + 1,
    "src_kind": o + 1,
    "dst_kind": o + 3,
    "flags": o,
    "channel": o + 4,
    "channel_type": o + 2,
    "logical_lane": o + 7,
    "lane_name": obj(None),
}
memset = {
    "start_ns": i64(us(50)),
    "end_ns": i64(us(55)),
    "device_id": o,
    "context_id": o + 1,
    "stream_id": o + 7,
    "correlation_id": o + 13,
    "graph_node_id": o,
    "source_graph_node_id": o,
    "graph_id": o,
    "annotation": obj(None),
    "bytes": o + 256,
    "value": o + 7,
    "memory_kind": o + 3,
    "flags": o,
    "channel": o + 3,
    "channel_type": o + 1,
    "logical_lane": o + 7,
    "lane_name": obj(None),
}
evnode = {
    "start_ns": i64(us(442)),
    "end_ns": i64(us(442)),
    "device_id": o,
    "context_id": o + 1,
    "stream_id": o + 32,
    "correlation_id": o + 20,
    "graph_node_id": i64(G | 4),
    "source_graph_node_id": o,
    "graph_id": o + 5,
    "annotation": obj(None),
    "logical_lane": o + 32,
    "lane_name": obj(None),
}
host = {
    "start_ns": i64(us(505)),
    "end_ns": i64(us(515)),
    "device_id": o,
    "context_id": o + 1,
    "stream_id": o + 33,
    "correlation_id": o + 20,
    "graph_node_id": i64(G | 6),
    "source_graph_node_id": o,
    "graph_id": o + 5,
    "annotation": obj(None),
    "process_id": o + pid,
    "thread_id": o + 4242,
    "logical_lane": o + 33,
    "lane_name": obj(None),
    "host_fn": obj("my_callback"),
    "host_fn_addr": i64(0x7F0012345678),
}


def cb(E, *names):
    m = {}
    for k, v in E.__members__.items():
        b = k.rsplit("_v", 1)[0] if "_v" in k and k.rsplit("_v", 1)[1].isdigit() else k
        m.setdefault(b, v.value)
    return i64(*[m[x] for x in names])


rn = (
    "cudaMemcpyAsync",
    "cudaLaunchKernel",
    "cudaLaunchKernel",
    "cudaMemsetAsync",
    "cudaGraphLaunch",
    "cudaGraphLaunch",
    "cudaDeviceSynchronize",
    "cudaEventRecord",
    "cudaGetDevice",
    "cudaStreamWaitEvent",
)
rt = {
    "cbid": cb(R, *rn),
    "start_ns": i64(*[us(x) for x in (10, 80, 120, 45, 300, 600, 750, 140, 5, 200)]),
    "end_ns": i64(*[us(x) for x in (18, 90, 130, 49, 350, 650, 790, 142, 6, 203)]),
    "process_id": np.full(10, pid, np.int64),
    "thread_id": np.full(10, tid, np.int64),
    "correlation_id": i64(10, 11, 12, 13, 20, 21, 30, 31, 32, 33),
}
drv = {
    "cbid": cb(D, "cuLaunchKernelEx"),
    "start_ns": i64(us(81)),
    "end_ns": i64(us(88)),
    "process_id": o + pid,
    "thread_id": o + tid,
    "correlation_id": o + 11,
}
oh = {
    "start_ns": i64(us(60), us(5000)),
    "end_ns": i64(us(70), us(5010)),
    "correlation_id": i64(0, 0),
    "name": obj("Instrumentation", "Activity Buffer Request"),
}
cue = {
    "cuda_event_sync_id": i64(77),
    "correlation_id": i64(31),
    "device_id": o,
    "context_id": o + 1,
    "stream_id": o + 7,
    "event_id": i64(9),
    "start_ns": i64(us(141)),
    "end_ns": i64(us(141)),
}
sync = {
    "sync_type": i64(4, 2),
    "start_ns": i64(us(750), us(200)),
    "end_ns": i64(us(790), us(203)),
    "context_id": i64(1, 1),
    "stream_id": i64(0xFFFFFFFF, 32),
    "correlation_id": i64(30, 33),
    "cuda_event_id": i64(0, 9),
    "cuda_event_sync_id": i64(0, 77),
}
ext = {
    "external_kind": i64(3, 3),
    "external_id": i64(AE, AE),
    "correlation_id": i64(11, 12),
    "user_external_id": i64(AE, AE),
}
ek = []
ed = []
et = []
for s in range(4):
    for kind, val in ((3, 300000 + s * 1000 | (700000 << 32)), (2, 45 + s), (1, 1700 | (2600 << 32)), (4, 30)):
        ek.append(kind)
        ed.append(val)
        et.append(us(s * 200))
env = {
    "start_ns": i64(*et),
    "device_id": np.zeros(len(et), np.int64),
    "environment_kind": i64(*ek),
    "data": np.asarray(ed, dtype=np.uint64),
}
pm = {"start_ns": i64(*[us(s * 200) for s in range(4)]), "device_id": np.zeros(4, np.int64)}
pm["sm__cycles_active.avg.pct_of_peak_sustained_elapsed"] = np.asarray([10.0, 55.5, 80.0, 0.0])
pm["sm__cycles_active.avg"] = np.asarray([1e5, 2e5, 3e5, 0.0])
pm["l1tex__t_bytes.sum"] = np.asarray([1.0, 2.0, 3.0, 4.0])
deps = {G | 2: [G | 1], G | 4: [G | 2], G | 3: [G | 4], G | 6: [G | 3]}
w = {
    "columns": {
        "kernel": kern,
        "gpu_memcpy": memcpy,
        "gpu_memset": memset,
        "graph_event_node": evnode,
        "graph_host_node": host,
        "cuda_runtime": rt,
        "cuda_driver": drv,
        "overhead": oh,
        "cuda_event": cue,
        "cuda_sync": sync,
        "external_correlation": ext,
        "environment": env,
        "pm_sampling": pm,
    },
    "user_annotations": {AE: "my_forward"},
    "thread_resource_map": {},
    "start_ns": t0,
    "graph_deps": deps,
    "graph_event_record_events": {G | 4: 0x7F00AA000000},
}
for name in ("cuspy_synthetic/worker0.pt.trace.json.gz", "cuspy_packets_synthetic/worker0.pftrace.gz"):
    path = Path(out) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    T.merge_trace_window_into_chrome_trace(cpu, str(path), w, trace_name=path.name)
