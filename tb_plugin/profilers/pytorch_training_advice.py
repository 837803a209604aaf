"""Advice for PyTorch training, by advice key.

One file contains all entries, because each entry is only a text and its references.
"""

from __future__ import annotations

from tb_plugin.model.trace.recorder import Advice

DOCS = "https://docs.pytorch.org/docs/stable"
_TUTORIALS = "https://docs.pytorch.org/tutorials"
_TUNING = ("PyTorch: tuning guide", f"{_TUTORIALS}/recipes/recipes/tuning_guide.html")
AMP = ("PyTorch: AMP", f"{DOCS}/amp.html")
_MATRIX_MULTIPLICATION = (
    "NVIDIA: matrix multiplication background",
    "https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/index.html",
)
_CUDA_MEMORY = ("PyTorch: CUDA memory management", f"{DOCS}/notes/cuda.html#cuda-memory-management")

GRAPHS = (
    ("PyTorch: CUDA graphs", f"{DOCS}/notes/cuda.html#cuda-graphs"),
    ("PyTorch: torch.compile", f"{DOCS}/generated/torch.compile.html"),
)

TRAINING = {
    "data_loading": Advice(
        "Give the DataLoader worker processes (num_workers), so that the next batch is ready when the step ends.",
        (("PyTorch: data loading", f"{DOCS}/data.html"), _TUNING),
        snippet="loader = DataLoader(dataset, batch_size=..., num_workers=8, persistent_workers=True)",
    ),
    "data_loading.workers": Advice(
        "Give the DataLoader more worker processes (num_workers, prefetch_factor), keep the workers alive "
        "(persistent_workers=True), and reduce the work in __getitem__: decode and augment in advance or on the device.",
        snippet="loader = DataLoader(dataset, batch_size=..., num_workers=16, prefetch_factor=4, persistent_workers=True)",
    ),
    "data_loading.start": Advice(
        "Record after the first batches, schedule(wait=1, warmup=1, ...), to see the usual step. In training, "
        "persistent_workers=True keeps the workers alive between epochs.",
        snippet="loader = DataLoader(dataset, batch_size=..., num_workers=8, persistent_workers=True)",
    ),
    "synchronising_calls": Advice(
        "Read device values (.item(), .cpu(), print(loss)) only every N steps; sum the values on the device with detach(). "
        "Keep conditions on the device: torch.where() instead of nonzero() and boolean masks.",
        (_TUNING, ("PyTorch: asynchronous execution", f"{DOCS}/notes/cuda.html#asynchronous-execution")),
        snippet="total += loss.detach()  # no wait\n"
        "if step % 100 == 0:\n"
        "    print(total.item() / 100)  # one wait per 100 steps\n"
        "    total.zero_()",
    ),
    "synchronising_calls.explicit": Advice(
        "Remove torch.cuda.synchronize() from the loop. To measure time, record torch.cuda.Event(enable_timing=True) and "
        "read the events after the loop."
    ),
    "deterministic_sync": Advice(
        "Check whether this training run needs torch.use_deterministic_algorithms(True). If so, replace the forward "
        "operator by an operator whose backward pass has no scattered sums: slicing or a mask instead of torch.gather(), "
        "one_hot() and matmul instead of a small embedding.",
        (("PyTorch: deterministic algorithms", f"{DOCS}/generated/torch.use_deterministic_algorithms.html"),),
    ),
    "pageable_copies": Advice(
        "Pin the memory (DataLoader(pin_memory=True) or tensor.pin_memory()) and copy with .to(device, non_blocking=True). "
        "Copy the next batch on a separate torch.cuda.Stream() during the current step.",
        (("PyTorch: pin_memory and non_blocking", f"{_TUTORIALS}/intermediate/pinmem_nonblock.html"), _TUNING),
        snippet="loader = DataLoader(dataset, batch_size=..., pin_memory=True)\n"
        "batch = batch.to(device, non_blocking=True)",
    ),
    "exposed_copies": Advice(
        "Copy the next batch on a separate torch.cuda.Stream() during the current step: call .to(device, non_blocking=True) "
        "on that stream, then wait_stream() and record_stream() before the batch is used.",
        (("PyTorch: pin_memory and non_blocking", f"{_TUTORIALS}/intermediate/pinmem_nonblock.html"),),
        snippet="copying = torch.cuda.Stream()\n"
        "with torch.cuda.stream(copying):\n"
        "    following = next(batches).to(device, non_blocking=True)\n"
        "# before the batch is used:\n"
        "torch.cuda.current_stream().wait_stream(copying)\n"
        "following.record_stream(torch.cuda.current_stream())",
    ),
    "repeated_copies": Advice(
        "Create the tensor on the device, or copy it once before the loop: register_buffer() in the module, and "
        "torch.arange(..., device=device) instead of .to(device).",
        (_TUNING,),
        snippet='self.register_buffer("mask", mask, persistent=False)  # in __init__: moves with model.to(device)',
    ),
    "launch_bound": Advice(
        (
            'Launch many kernels at once with CUDA graphs: torch.compile(mode="reduce-overhead") or '
            "torch.cuda.make_graphed_callables(). torch.compile() and fused=True in the optimizer give fewer "
            "and larger kernels."
        ),
        GRAPHS,
        snippet='model = torch.compile(model, mode="reduce-overhead")',
    ),
    "small_batch": Advice(
        "Try a larger batch_size in the DataLoader and check convergence. A larger batch usually needs another learning "
        "rate.",
        (("Large-batch training", "https://arxiv.org/abs/1706.02677"), _TUNING),
    ),
    "python_bound": Advice(
        "Move this work out of the loop, to tensors on the device, or to a DataLoader worker. torch.compile() removes "
        "Python between operators.",
        (_TUNING, ("PyTorch: torch.compile", f"{DOCS}/generated/torch.compile.html")),
        snippet="model = torch.compile(model)",
    ),
    "garbage_collection": Advice(
        "Call gc.collect() and gc.freeze() after building the model, then gc.disable(). Call gc.collect() every N steps, in "
        "the same step on all ranks.",
        (("Python: gc", "https://docs.python.org/3/library/gc.html"),),
        snippet="gc.collect()\ngc.freeze()\ngc.disable()  # before the loop\nif step % 100 == 0:\n    gc.collect()",
    ),
    "compilation": Advice(
        "Set TORCH_LOGS=recompiles to see why code is compiled again. Mark changing sizes with torch._dynamo.mark_dynamic() "
        "or torch.compile(dynamic=True), and run each shape once as warm-up.",
        (("PyTorch: recompilation", f"{DOCS}/torch.compiler_troubleshooting.html"),),
        snippet="model = torch.compile(model, dynamic=True)",
    ),
    "compilation.first": Advice(
        "Run one complete step with each input shape before recording: schedule(wait=1, warmup=3, ...).",
        snippet="schedule = torch.profiler.schedule(wait=1, warmup=3, active=5)",
    ),
    "recompilation": Advice(
        "Set TORCH_LOGS=recompiles to see which guard failed. Mark changing sizes with torch._dynamo.mark_dynamic(), pass "
        "numbers as tensors, and pad batches to a few sizes compiled during warm-up.",
        (("PyTorch: recompilation", f"{DOCS}/torch.compiler_troubleshooting.html"),),
        snippet="torch._dynamo.mark_dynamic(batch, 0)  # the dimension that changes",
    ),
    "graph_breaks": Advice(
        "Set TORCH_LOGS=graph_breaks to see the reason of each break, or use torch.compile(fullgraph=True) to get an error "
        "at a break. Remove .item(), print() and conditions on tensors from the model, or use torch.where() and "
        "torch.cond().",
        (("PyTorch: graph breaks", f"{DOCS}/torch.compiler_troubleshooting.html"),),
        snippet="model = torch.compile(model, fullgraph=True)  # an error names the first break",
    ),
    "slow_first_step": Advice(
        "Skip the first steps: torch.profiler.schedule(wait=1, warmup=3, active=...). In short runs, reuse compiled code "
        "(TORCHINDUCTOR_CACHE_DIR) and turn torch.backends.cudnn.benchmark off.",
        (("PyTorch: profiler schedule", f"{DOCS}/profiler.html#torch.profiler.schedule"),),
        snippet="schedule = torch.profiler.schedule(wait=1, warmup=3, active=5)",
    ),
    "step_outliers": Advice(
        "Move occasional work out of the step: save checkpoints with torch.distributed.checkpoint.async_save(), and "
        "evaluate and log less often. Set persistent_workers=True and a larger prefetch_factor in the DataLoader.",
        (("PyTorch: distributed checkpoint", f"{DOCS}/distributed.checkpoint.html"),),
    ),
    "profiler_overhead": Advice(
        "Record fewer steps and activities. Use torch.profiler.schedule(warmup=...), so that buffers exist before the first "
        "recorded step.",
        (("PyTorch: profiler", f"{DOCS}/profiler.html"),),
    ),
    "profiler_overhead.stacks": Advice("Record again with with_stack=False before you trust host times."),
    "data_parallel": Advice(
        "Use DistributedDataParallel: one process per device avoids the interpreter lock and the model copies.",
        (("PyTorch: DDP", f"{_TUTORIALS}/intermediate/ddp_tutorial.html"),),
        snippet="model = torch.nn.parallel.DistributedDataParallel(model.to(local_rank), device_ids=[local_rank])",
    ),
    "distributed_backend": Advice(
        "Initialize the process group with the backend {backend}, the fastest one for this hardware.",
        (("PyTorch: backends", f"{DOCS}/distributed.html"),),
    ),
    "communication": Advice(
        "",
        (
            ("PyTorch: DDP communication hooks", f"{DOCS}/ddp_comm_hooks.html"),
            ("Large-batch training (LAMB)", "https://arxiv.org/abs/1904.00962"),
        ),
        snippet="for i, (x, y) in enumerate(loader):\n"
        "    is_last = (i + 1) % 4 == 0\n"
        "    with contextlib.nullcontext() if is_last else model.no_sync():\n"
        "        (loss_fn(model(x), y) / 4).backward()\n"
        "    if is_last:\n"
        "        optimizer.step()\n"
        "        optimizer.zero_grad(set_to_none=True)",
    ),
    "communication.small": Advice(
        "",
        snippet="model = DistributedDataParallel(model, bucket_cap_mb=100, gradient_as_bucket_view=True)\n"
        "metrics = torch.stack([loss.detach(), accuracy])\n"
        "dist.all_reduce(metrics)  # one call for all metrics",
    ),
    "one_stream": Advice(
        "If these modules are independent, merge them into one batched call (torch.vmap, torch.bmm, one wider module). Or "
        "run one module under torch.cuda.stream(side), with wait_stream() before and after that module.",
        (("PyTorch: CUDA streams", f"{DOCS}/notes/cuda.html#cuda-streams"),),
    ),
    "serial_collectives": Advice(
        "Reduce gradients on a separate stream, as DistributedDataParallel does during the backward pass. Without "
        "DistributedDataParallel: call dist.all_reduce(..., async_op=True) in Tensor.register_post_accumulate_grad_hook, "
        "and wait for all of these calls before the optimizer step.",
        (("PyTorch: DDP", f"{DOCS}/notes/ddp.html"), ("PyTorch: async_op", f"{DOCS}/distributed.html")),
        snippet="model = DistributedDataParallel(model, gradient_as_bucket_view=True)",
    ),
    "small_collectives": Advice(
        "Put gradients into buckets: DistributedDataParallel(bucket_cap_mb=25, gradient_as_bucket_view=True). Without "
        "DistributedDataParallel: flatten the gradients into one tensor (torch._utils._flatten_dense_tensors), or use "
        "torch.distributed.all_reduce_coalesced.",
        (("PyTorch: DDP", f"{DOCS}/notes/ddp.html"),),
        snippet="model = DistributedDataParallel(model, bucket_cap_mb=25, gradient_as_bucket_view=True)",
    ),
    "memory_unused": Advice(
        "Try a larger batch (DataLoader(batch_size=...)) and scale the learning rate. With gradient accumulation, use fewer "
        "and larger micro-batches. If memory allows, remove activation checkpointing (torch.utils.checkpoint).",
        (_TUNING,),
    ),
    "reserved_oscillation": Advice(
        "Remove torch.cuda.empty_cache() from the loop, pad inputs to a few lengths, and warm up with the largest input. "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True lets segments grow instead of adding new ones.",
        (_CUDA_MEMORY,),
        snippet="PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True python train.py",
    ),
    "low_utilization": Advice(
        "Find what the device waits for: input, launches from Python, or synchronization. A larger batch gives the device "
        "more work per launch; check convergence.",
        (_TUNING,),
    ),
    "low_utilization.unexplained": Advice(
        "The host waits because the device was busy with work from before the recording, or from another process. Start "
        "recording earlier: schedule(wait=1, warmup=1, ...)."
    ),
    "low_utilization.initialisation": Advice(
        "Start recording after the first iterations: schedule(wait=1, warmup=1, ...). The driver is initialized once per "
        "process."
    ),
    "low_utilization.capture": Advice(
        "A graph is captured once. To see the steady state, start recording after the capture: schedule(wait=1, warmup=1, "
        "...). To see the kernel names of replays, put this recording into the folder capture_traces/ next to the replay "
        "trace."
    ),
    "low_utilization.unlaunched": Advice("Record the CPU too: profile(activities=[ProfilerActivity.CPU, ...])."),
    "recording_began_mid_flight": Advice(
        "Start recording while the device is idle: call torch.cuda.synchronize() first, or start before the server receives "
        "requests."
    ),
    "matrix_units": Advice("Automatic mixed precision runs matmuls and convolutions in 16 bit.", (AMP,)),
    "matrix_units.bf16": Advice(
        "Automatic mixed precision runs matmuls and convolutions in 16 bit; bfloat16 needs no loss scaling.",
        snippet="with torch.autocast(x.device.type, dtype=torch.bfloat16):\n"
        "    loss = loss_fn(model(x), y)\n"
        "loss.backward()",
    ),
    "matrix_units.fp16": Advice(
        "Automatic mixed precision runs matmuls and convolutions in 16 bit: float16, with a gradient scaler.",
        snippet="scaler = torch.amp.GradScaler()\n"
        "with torch.autocast(x.device.type, dtype=torch.float16):\n"
        "    loss = loss_fn(model(x), y)\n"
        "scaler.scale(loss).backward()\n"
        "scaler.step(optimizer)\n"
        "scaler.update()",
    ),
    "matrix_units.tf32": Advice(
        'Enable TF32 with torch.set_float32_matmul_precision("high").',
        snippet='torch.set_float32_matmul_precision("high")',
    ),
    "tf32_off": Advice(
        (
            'Set torch.set_float32_matmul_precision("high") for matmuls and torch.backends.cudnn.allow_tf32 = True '
            "for convolutions, unless 10-bit mantissas are too few."
        ),
        (
            ("PyTorch: set_float32_matmul_precision", f"{DOCS}/generated/torch.set_float32_matmul_precision.html"),
            ("PyTorch: TF32", f"{DOCS}/notes/cuda.html#tensorfloat-32-tf32-on-ampere-and-later-devices"),
        ),
        snippet="torch.backends.cuda.matmul.allow_tf32 = True\ntorch.backends.cudnn.allow_tf32 = True",
    ),
    "matrix_alignment": Advice(
        "Pad the dimension to a multiple of 8 (16 for 8-bit types): vocabulary, number of classes, layer width "
        "(nn.Linear(width, 8 * math.ceil(size / 8))), or sequence length (pad_to_multiple_of=8).",
        (_MATRIX_MULTIPLICATION, _TUNING),
        snippet="head = nn.Linear(width, 8 * math.ceil(size / 8))",
    ),
    "slow_matrix_products.alignment": Advice(
        "Pad the dimension to a multiple of 8 (16 for 8-bit types): vocabulary, number of classes, or layer width.",
        snippet="head = nn.Linear(width, 8 * math.ceil(size / 8))",
    ),
    "slow_matrix_products.small": Advice(
        "Merge layers that read the same input, such as query, key and value, into one layer. A larger batch also gives "
        "each matmul more tiles, except in the gradients of weights; for these, "
        'torch.compile(mode="max-autotune") tries kernels that split the depth.',
        snippet="qkv = nn.Linear(width, 3 * width)  # instead of three layers",
    ),
    "slow_matrix_products.tile": Advice(
        "Make the small dimension larger: use a larger batch, or merge layers that read the same input. "
        'torch.compile(mode="max-autotune") also tries kernels with smaller tiles.',
        snippet='model = torch.compile(model, mode="max-autotune")',
    ),
    "slow_matrix_products.waves": Advice(
        "Change the batch size or the layer width until the tiles fill complete rounds. "
        'torch.compile(mode="max-autotune") also tries kernels with other tiles.',
        snippet='model = torch.compile(model, mode="max-autotune")',
    ),
    "slow_matrix_products": Advice("", (_MATRIX_MULTIPLICATION, _TUNING)),
    "unfused_attention": Advice(
        (
            "Call torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=..., is_causal=...), "
            'or set attn_implementation="sdpa" in Transformers. For other masks, use '
            "torch.nn.attention.flex_attention."
        ),
        (
            (
                "PyTorch: scaled_dot_product_attention",
                f"{DOCS}/generated/torch.nn.functional.scaled_dot_product_attention.html",
            ),
            ("PyTorch: FlexAttention", f"{DOCS}/nn.attention.flex_attention.html"),
        ),
        snippet="out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)",
    ),
    "unfused_optimizer": Advice(
        "Set fused=True (torch.optim.AdamW(..., fused=True)), or foreach=True if the optimizer has no fused form. In your "
        "own optimizer, use torch._foreach_* functions or torch.compile(optimizer.step).",
        (("PyTorch: optimizers", f"{DOCS}/optim.html#default-implementations"), _TUNING),
        snippet="optimizer = torch.optim.AdamW(model.parameters(), lr=lr, fused=True)",
    ),
    "unfused_kernels": Advice(
        "Compile the module or function with torch.compile, which fuses such sequences of kernels. Many "
        "norms and activations also exist as one operator (nn.functional.gelu, rms_norm).",
        (("PyTorch: torch.compile", f"{_TUTORIALS}/intermediate/torch_compile_tutorial.html"), _TUNING),
        snippet="model = torch.compile(model)",
    ),
    "pipeline_bubble": Advice(
        "Use more micro-batches per stage, or an interleaved or zero-bubble schedule (torch.distributed.pipelining: "
        "ScheduleInterleaved1F1B, ScheduleInterleavedZeroBubble). Balance the stages: compare their ranks on the page "
        "Ranks.",
        (("PyTorch: pipeline parallelism", f"{DOCS}/distributed.pipelining.html"),),
    ),
    "offload_copies": Advice(
        "If memory allows, keep gradients and optimizer state on the device, or shard them over more ranks. Otherwise pin "
        "the memory and overlap the copies with the backward pass and the parameter updates.",
        (("DeepSpeed: ZeRO-Offload", "https://www.deepspeed.ai/tutorials/zero-offload/"),),
    ),
    "expert_imbalance": Advice(
        "Balance the router: an auxiliary loss or a bias per expert, a capacity factor, or experts placed by load. Several "
        "experts per rank reduce the imbalance.",
        (("GShard", "https://arxiv.org/abs/2006.16668"),),
    ),
    "communication.sharding": Advice(
        "Gather parameters earlier: set_modules_to_forward_prefetch() and set_modules_to_backward_prefetch() of fully_shard "
        "(FSDP1: forward_prefetch=True, BackwardPrefetch.BACKWARD_PRE). reshard_after_forward=False avoids the second "
        "gather; HSDP shards only within a machine."
    ),
    "recomputation": Advice(
        "If memory allows, checkpoint fewer modules, such as every second layer. Or recompute only cheap operators: "
        "torch.utils.checkpoint.create_selective_checkpoint_contexts. The Memory page shows how much memory is free.",
        (("PyTorch: checkpoint", f"{DOCS}/checkpoint.html"),),
    ),
    "redundant_casts": Advice(
        "Cast each tensor once and reuse the result: one torch.autocast around the whole step caches weight casts, or use "
        "model.to(torch.bfloat16). Remove .float() followed by .half().",
        (AMP, _TUNING),
        snippet="with torch.autocast(x.device.type, dtype=torch.bfloat16):  # around the whole forward pass\n"
        "    loss = loss_fn(model(x), y)",
    ),
    "redundant_copies": Advice(
        "Create tensors in the layout in which they are used: remove .contiguous(), transpose late, and reshape before a "
        "matmul instead of after it.",
        (("PyTorch: tensor views", f"{DOCS}/tensor_view.html"), _TUNING),
    ),
    "redundant_copies.convolutions": Advice(
        "Keep convolutions in channels_last: model.to(memory_format=torch.channels_last) for the model, and "
        ".to(memory_format=torch.channels_last) for the input. Set torch.backends.cudnn.benchmark = True.",
        (("PyTorch: channels_last", f"{_TUTORIALS}/intermediate/memory_format_tutorial.html"),),
        snippet="model = model.to(memory_format=torch.channels_last)\n"
        "x = x.to(device, memory_format=torch.channels_last)",
    ),
    "redundant_copies.convolutions.miopen": Advice(
        "Keep convolutions in channels_last (before ROCm 7 only with PYTORCH_MIOPEN_SUGGEST_NHWC=1 in the environment): "
        "model.to(memory_format=torch.channels_last), and the same for the input.",
        (("PyTorch: channels_last", f"{_TUTORIALS}/intermediate/memory_format_tutorial.html"),),
        snippet="# before ROCm 7: PYTORCH_MIOPEN_SUGGEST_NHWC=1 python train.py\n"
        "model = model.to(memory_format=torch.channels_last)\n"
        "x = x.to(device, memory_format=torch.channels_last)",
    ),
    "out_of_memory.full": Advice(
        "Use a smaller batch or shorter inputs, autocast, torch.utils.checkpoint or a sharded optimizer state.",
        (("PyTorch: checkpoint", f"{DOCS}/checkpoint.html"), _CUDA_MEMORY),
    ),
    "out_of_memory.one": Advice(
        "Check the shapes at this line: a broadcast, an index or a full attention matrix may be larger than intended. If "
        "the size is intended, compute the tensor in chunks.",
        (_CUDA_MEMORY,),
    ),
    "out_of_memory.pieces": Advice(
        "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True and keep shapes constant: enough memory is reserved, but it "
        "is fragmented.",
        (_CUDA_MEMORY,),
        snippet="PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True python train.py",
    ),
    "out_of_memory.cpu": Advice(
        "Free up memory on the machine: use fewer DataLoader workers (num_workers, prefetch_factor), smaller batches, or "
        "data read from disk (mmap)."
    ),
    "device_copies": Advice(
        "Remove .clone() and .contiguous(), and write results in place with out= or views. Allocate growing tensors such as "
        "caches once and fill slices, instead of torch.cat().",
        (("PyTorch: tensor views", f"{DOCS}/tensor_view.html"), _TUNING),
    ),
    "memory_limit": Advice(
        "Recompute activations (gradient checkpointing) or use mixed precision before the next larger batch fails.",
        (("PyTorch: checkpoint", f"{DOCS}/checkpoint.html"), AMP),
    ),
    "driver_memory_calls": Advice(
        "The reserved curve should be flat. Keep shapes constant, warm up with the largest input, and remove "
        "torch.cuda.empty_cache() from the loop.",
        (_CUDA_MEMORY,),
        snippet="PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True python train.py",
    ),
    "driver_memory_calls.segments": Advice(
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True lets segments grow instead of adding new ones."
    ),
    "memory_growth": Advice(
        "Find references that keep tensors alive between steps: lists of losses or outputs with their graph (use .item() or "
        ".detach()), hooks, retain_graph=True.",
        (("PyTorch: memory FAQ", f"{DOCS}/notes/faq.html"),),
    ),
    "memory_cache": Advice(
        "Check whether the cache stops growing. Limit the number of its entries or of shapes (pad inputs to a few lengths)."
    ),
    "memory_fragmentation": Advice("", (_CUDA_MEMORY,)),
    "memory_fragmentation.before": Advice(
        "After an evaluation or a warm-up with larger inputs, call torch.cuda.empty_cache() once to return unused memory to "
        "the driver. The process can still use this memory for larger inputs."
    ),
    "memory_fragmentation.shapes": Advice(
        "Pad inputs to a few lengths and warm up with the largest one. PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True "
        "lets segments grow instead of adding new ones."
    ),
    "memory_fragmentation.sizes": Advice(
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True avoids most gaps; max_split_size_mb is the alternative. Allocate "
        "long-lived tensors (optimizer state, caches) before the first step."
    ),
    "memory_fragmentation.large": Advice(
        "Allocate the largest tensors first and reuse these tensors, or compute them in chunks. "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True lets segments grow instead of adding new ones."
    ),
    "memory_fragmentation.other": Advice("Record a memory snapshot to see pools and streams."),
    "memory_shapes": Advice("Pad inputs to a few lengths (buckets), and warm up with the largest one."),
    "memory_spike": Advice(
        "Compute this tensor in chunks (of batch or vocabulary), in place, in 16 bit, or with a fused operator."
    ),
    "snapshot_leak": Advice(
        "Find references that keep the tensors alive: losses with their graph (append loss.item() or loss.detach()), "
        "unbounded lists and caches, hooks, exceptions. If gc.collect() frees them, they are in reference cycles.",
        (("PyTorch: memory FAQ", f"{DOCS}/notes/faq.html#my-model-reports-cuda-runtime-error-2-out-of-memory"),),
    ),
    "snapshot_fragmentation": Advice(
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True lets segments grow instead of adding new ones. If this setting is "
        "not supported, use max_split_size_mb.",
        (_CUDA_MEMORY,),
    ),
    "snapshot_fragmentation.varying": Advice("Pad or bucket inputs to a few constant shapes, the largest one first."),
    "snapshot_fragmentation.pinned": Advice(
        "Allocate long-lived tensors before the first step, or keep them on the host."
    ),
    "snapshot_fragmentation.mixed": Advice(
        "Keep shapes constant, and allocate long-lived tensors before short-lived ones."
    ),
    "snapshot_fragmentation.pool": Advice(
        "Share one pool between captured graphs (torch.cuda.graph_pool_handle()), and delete unused graphs: a pool is freed "
        "with its last graph."
    ),
    "snapshot_fragmentation.small": Advice("Merge many small tensors with the same lifetime into one tensor."),
    "snapshot_fragmentation.rest": Advice("Call torch.cuda.empty_cache() once after the phase that needed the memory."),
    "memory_peak.parameter": Advice(
        "To shrink the parameters, shard the model (fully_shard) or store them in bfloat16."
    ),
    "memory_peak.optimizer_state": Advice(
        "To shrink the optimizer state, shard it (fully_shard, ZeroRedundancyOptimizer) or use 8-bit states."
    ),
    "memory_peak.gradient": Advice(
        "To shrink the gradients, shard the model (fully_shard), and free them early: zero_grad(set_to_none=True)."
    ),
    "memory_peak.activation": Advice(
        "To shrink the activations, use torch.utils.checkpoint, autocast or a smaller batch."
    ),
    "snapshot_out_of_memory.full": Advice(
        "Use less memory: a smaller batch or shorter inputs, autocast, activation checkpointing, a sharded optimizer state.",
        (("PyTorch: checkpoint", f"{DOCS}/checkpoint.html"), _CUDA_MEMORY),
    ),
    "snapshot_out_of_memory.one": Advice(
        "Check the requesting line: such a size is often an unintended shape (a broadcast, an index, a full attention "
        "matrix). Otherwise compute the tensor in chunks.",
        (_CUDA_MEMORY,),
    ),
    "snapshot_out_of_memory.gap": Advice(
        "Check PYTORCH_CUDA_ALLOC_CONF (max_split_size_mb) and torch.cuda.set_per_process_memory_fraction(), and record "
        "from the start of the process.",
        (_CUDA_MEMORY,),
    ),
    "snapshot_out_of_memory.pieces": Advice(
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True lets segments grow, so that free memory is contiguous. If this "
        "setting is not supported, use max_split_size_mb and garbage_collection_threshold. Constant shapes avoid "
        "fragmentation.",
        (_CUDA_MEMORY,),
    ),
    "snapshot_out_of_memory.pieces.expandable": Advice(
        "Segments are already expandable. Keep shapes constant (pad or bucket inputs, largest first), and allocate "
        "long-lived tensors before the first step.",
        (_CUDA_MEMORY,),
    ),
    "snapshot_out_of_memory.elsewhere": Advice(
        "Keep large tensors on one stream, and share one pool between CUDA graphs (torch.cuda.graph_pool_handle()). Memory "
        "freed by one stream or pool cannot serve another.",
        (_CUDA_MEMORY,),
    ),
    "snapshot_reserved_swings": Advice(
        "Remove torch.cuda.empty_cache() from the loop. If the loop contains no such call, memory is nearly full and the "
        "allocator retries: keep shapes constant, or use less memory.",
        (_CUDA_MEMORY,),
    ),
    "snapshot_rising_peaks": Advice(
        "Find what grows: longer sequences, larger images, a growing batch, or outputs kept until the end of the step. "
        "Limit the growth: truncate sequences, bucket them by length, or limit the tokens per batch."
    ),
    "snapshot_single_peak": Advice(
        "Make this block smaller: compute in chunks, in 16 bit, or in place. A fused loss needs no full logits."
    ),
    "driver_memory_calls.no_steps": Advice(
        "Call profiler.step() once per iteration to separate the warm-up from the rest."
    ),
}
