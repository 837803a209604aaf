"""What to do about findings on a PyTorch training."""

from __future__ import annotations

from tb_plugin.model.trace.recorder import Advice

DOCS = "https://docs.pytorch.org/docs/stable"
_TUTORIALS = "https://docs.pytorch.org/tutorials"
_TUNING = ("PyTorch: tuning guide", f"{_TUTORIALS}/recipes/recipes/tuning_guide.html")
AMP = ("PyTorch: AMP", f"{DOCS}/amp.html")
_CUDA_MEMORY = ("PyTorch: CUDA memory management", f"{DOCS}/notes/cuda.html#cuda-memory-management")

GRAPHS = (
    ("PyTorch: CUDA graphs", f"{DOCS}/notes/cuda.html#cuda-graphs"),
    ("PyTorch: torch.compile", f"{DOCS}/generated/torch.compile.html"),
)

TRAINING = {
    "data_loading": Advice(
        "Give the DataLoader worker processes (num_workers) and pinned memory, so that the next batch is ready when the "
        "step ends.",
        (("PyTorch: data loading", f"{DOCS}/data.html"), _TUNING),
    ),
    "data_loading.workers": Advice(
        "Give the DataLoader more worker processes (num_workers, prefetch_factor), keep them (persistent_workers=True), and "
        "do less in __getitem__: decode and augment in advance or on the device."
    ),
    "synchronising_calls": Advice(
        "Take values from the device once in many steps (.item(), .cpu(), printing a loss): add them up on the device with "
        "detach(). Keep conditions there: torch.where() in place of nonzero() and boolean masks.",
        (_TUNING, ("PyTorch: asynchronous execution", f"{DOCS}/notes/cuda.html#asynchronous-execution")),
    ),
    "synchronising_calls.explicit": Advice(
        "Leave torch.cuda.synchronize() out of the loop: to measure, record torch.cuda.Event(enable_timing=True) and read "
        "them after the loop."
    ),
    "deterministic_sync": Advice(
        "See whether this training needs torch.use_deterministic_algorithms(True) throughout, or only to debug it. If "
        "it does, replace the forward operator by one whose backward pass adds nothing up at places that are known at run "
        "time: slicing or a mask in place of torch.gather(), one_hot() and matmul in place of an embedding of few rows.",
        (
            (
                "PyTorch: deterministic algorithms",
                f"{DOCS}/generated/torch.use_deterministic_algorithms.html",
            ),
        ),
    ),
    "pageable_copies": Advice(
        "Pin the memory (DataLoader(pin_memory=True) or tensor.pin_memory()), copy with .to(device, non_blocking=True), and "
        "copy the next batch on a torch.cuda.Stream() of its own while this one is computed.",
        (("PyTorch: pin_memory and non_blocking", f"{_TUTORIALS}/intermediate/pinmem_nonblock.html"), _TUNING),
    ),
    "exposed_copies": Advice(
        "Copy the next batch on a torch.cuda.Stream() of its own while this one is computed: .to(device, non_blocking=True) "
        "there, then wait_stream() and record_stream() before it is used.",
        (("PyTorch: pin_memory and non_blocking", f"{_TUTORIALS}/intermediate/pinmem_nonblock.html"),),
    ),
    "repeated_copies": Advice(
        "Make the tensor on the device, or copy it once before the loop: register_buffer() in the module, and "
        "torch.arange(..., device=device) in place of .to(device).",
        (_TUNING,),
    ),
    "launch_bound": Advice(
        'Launch many kernels at once: torch.compile(mode="reduce-overhead") or torch.cuda.make_graphed_callables() capture '
        "them in CUDA graphs; torch.compile() and fused=True of the optimizers make fewer and larger ones.",
        GRAPHS,
    ),
    "small_batch": Advice(
        "Try a larger batch_size of the DataLoader, and see whether the training still converges (a larger batch usually "
        "wants another learning rate).",
        (("Large-batch training", "https://arxiv.org/abs/1706.02677"), _TUNING),
    ),
    "python_bound": Advice(
        "Take this work out of the loop, do it with tensors on the device, or in a worker of the DataLoader; "
        "torch.compile() leaves the Python between operators out.",
        (_TUNING, ("PyTorch: torch.compile", f"{DOCS}/generated/torch.compile.html")),
    ),
    "garbage_collection": Advice(
        "Call gc.collect() and gc.freeze() after the model is made, then gc.disable(), and gc.collect() once in many steps, "
        "on all ranks in the same one.",
        (("Python: gc", "https://docs.python.org/3/library/gc.html"),),
    ),
    "compilation": Advice(
        "Set TORCH_LOGS=recompiles to see why; mark sizes that change with torch._dynamo.mark_dynamic() or "
        "torch.compile(dynamic=True), and run one step of each shape before the training counts.",
        (("PyTorch: recompilation", f"{DOCS}/torch.compiler_troubleshooting.html"),),
    ),
    "recompilation": Advice(
        "Set TORCH_LOGS=recompiles to see which guard failed; mark sizes that change with torch._dynamo.mark_dynamic(), "
        "pass numbers as tensors, and pad batches to a few sizes that are compiled before the training counts.",
        (("PyTorch: recompilation", f"{DOCS}/torch.compiler_troubleshooting.html"),),
    ),
    "graph_breaks": Advice(
        "Set TORCH_LOGS=graph_breaks to see why, and torch.compile(fullgraph=True) to be told at once. Take .item(), "
        "print() and conditions on tensors out of the model, or use torch.where() and torch.cond().",
        (("PyTorch: graph breaks", f"{DOCS}/torch.compiler_troubleshooting.html"),),
    ),
    "slow_first_step": Advice(
        "Let the profiler wait: torch.profiler.schedule(wait=1, warmup=3, active=...). In short runs keep what compilers "
        "have made (TORCHINDUCTOR_CACHE_DIR), and leave torch.backends.cudnn.benchmark off.",
        (("PyTorch: profiler schedule", f"{DOCS}/profiler.html#torch.profiler.schedule"),),
    ),
    "step_outliers": Advice(
        "Take what happens now and then out of the step: save checkpoints with "
        "torch.distributed.checkpoint.async_save(), evaluate and log less often, and give the DataLoader "
        "persistent_workers=True and a larger prefetch_factor.",
        (("PyTorch: distributed checkpoint", f"{DOCS}/distributed.checkpoint.html"),),
    ),
    "profiler_overhead": Advice(
        "Record fewer steps and activities, and use torch.profiler.schedule(warmup=...): buffers are then there before the "
        "first recorded step.",
        (("PyTorch: profiler", f"{DOCS}/profiler.html"),),
    ),
    "profiler_overhead.stacks": Advice("Record once more with with_stack=False before you trust times of the host."),
    "data_parallel": Advice(
        "Use DistributedDataParallel: one process a device avoids the interpreter lock and the copies of the model.",
        (("PyTorch: DDP", f"{_TUTORIALS}/intermediate/ddp_tutorial.html"),),
    ),
    "distributed_backend": Advice(
        "Initialise the process group with the backend {backend}, the fastest one for this hardware.",
        (("PyTorch: backends", f"{DOCS}/distributed.html"),),
    ),
    "communication": Advice(
        "",
        (
            ("PyTorch: DDP communication hooks", f"{DOCS}/ddp_comm_hooks.html"),
            ("Large-batch training (LAMB)", "https://arxiv.org/abs/1904.00962"),
        ),
    ),
    "one_stream": Advice(
        "If they are independent, make them one batched call (torch.vmap, torch.bmm, one wider module), or run one of them "
        "under torch.cuda.stream(side), with side.wait_stream(...) before it and the other way round after it.",
        (("PyTorch: CUDA streams", f"{DOCS}/notes/cuda.html#cuda-streams"),),
    ),
    "serial_collectives": Advice(
        "Reduce gradients on a stream of their own: DistributedDataParallel does, beneath the backward pass. By hand, call "
        "dist.all_reduce(..., async_op=True) in a hook of the gradient (Tensor.register_post_accumulate_grad_hook) and wait "
        "for all works before the optimizer's step.",
        (("PyTorch: DDP", f"{DOCS}/notes/ddp.html"), ("PyTorch: async_op", f"{DOCS}/distributed.html")),
    ),
    "small_collectives": Advice(
        "Put gradients together: DistributedDataParallel(bucket_cap_mb=25, gradient_as_bucket_view=True) does. By hand, "
        "flatten them into one tensor (torch._utils._flatten_dense_tensors), or start them together with "
        "torch.distributed.all_reduce_coalesced.",
        (("PyTorch: DDP", f"{DOCS}/notes/ddp.html"),),
    ),
    "memory_unused": Advice(
        "Try a larger batch (DataLoader(batch_size=...)) and scale the learning rate; with gradient accumulation, take "
        "fewer, larger micro-batches; leave out activation checkpointing (torch.utils.checkpoint) that was for memory alone.",
        (_TUNING,),
    ),
    "reserved_oscillation": Advice(
        "Leave out torch.cuda.empty_cache() in the loop, keep shapes constant (pad to a few lengths), and warm up with the "
        "largest input. PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True lets segments grow instead of adding new ones.",
        (_CUDA_MEMORY,),
    ),
    "low_utilization": Advice(
        "Look for what the device waits for: input, launches from Python, or synchronisation. A larger batch gives it "
        "more work per launch; check convergence.",
        (_TUNING,),
    ),
    "low_utilization.unexplained": Advice(
        "What the device did until then is not in the file: begin to record earlier (schedule(wait=1, warmup=1, ...)), and "
        "look whether another process works on this device. A host that waits meanwhile waits for that."
    ),
    "low_utilization.initialisation": Advice(
        "Start recording after the first iterations: schedule(wait=1, warmup=1, ...). A process sets the driver up once."
    ),
    "low_utilization.capture": Advice(
        "A graph is captured once. To see the steady state, start recording after that: schedule(wait=1, warmup=1, ...). "
        "This recording names the kernels of replays, if it lies beside theirs in capture_traces/."
    ),
    "low_utilization.unlaunched": Advice("Record the CPU as well: profile(activities=[ProfilerActivity.CPU, ...])."),
    "recording_began_mid_flight": Advice(
        "Start recording while the device has no work: call torch.cuda.synchronize() before, or start before a server gets "
        "requests."
    ),
    "matrix_units": Advice("Automatic mixed precision runs them in 16 bit.", (AMP,)),
    "matrix_units.bf16": Advice("Automatic mixed precision runs them in 16 bit; bfloat16 needs no loss scaling."),
    "matrix_units.fp16": Advice("Automatic mixed precision runs them in 16 bit: float16, with a gradient scaler."),
    "matrix_units.tf32": Advice("TF32 needs one line (torch.set_float32_matmul_precision)."),
    "tf32_off": Advice(
        'torch.set_float32_matmul_precision("high") lets products of float32 run as TF32, and '
        "torch.backends.cudnn.allow_tf32 = True convolutions. Where 10 bits are too few, leave it.",
        (
            ("PyTorch: set_float32_matmul_precision", f"{DOCS}/generated/torch.set_float32_matmul_precision.html"),
            ("PyTorch: TF32", f"{DOCS}/notes/cuda.html#tensorfloat-32-tf32-on-ampere-and-later-devices"),
        ),
    ),
    "matrix_alignment": Advice(
        "Pad the dimension to the next multiple of 8 (of 16 for 8 bit): the vocabulary, the number of classes, the width of "
        "a layer (nn.Linear(width, 8 * math.ceil(size / 8))), or the length of a batch (pad_to_multiple_of=8).",
        (
            (
                "NVIDIA: matrix multiplication background",
                "https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/index.html",
            ),
            _TUNING,
        ),
    ),
    "unfused_attention": Advice(
        "Call torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=..., is_causal=...), or set "
        'attn_implementation="sdpa" in Transformers; masks that it does not take are functions of '
        "torch.nn.attention.flex_attention.",
        (
            (
                "PyTorch: scaled_dot_product_attention",
                f"{DOCS}/generated/torch.nn.functional.scaled_dot_product_attention.html",
            ),
            ("PyTorch: FlexAttention", f"{DOCS}/nn.attention.flex_attention.html"),
        ),
    ),
    "unfused_optimizer": Advice(
        "Give the optimizer fused=True (torch.optim.AdamW(..., fused=True)), or foreach=True where it has no fused form; an "
        "optimizer of your own can use torch._foreach_* functions, or be compiled (torch.compile(optimizer.step)).",
        (("PyTorch: optimizers", f"{DOCS}/optim.html#default-implementations"), _TUNING),
    ),
    "unfused_kernels": Advice(
        "torch.compile the module, or only the function around this line: it fuses such runs. Norms, rotary embeddings "
        "and activations that are written out often exist as one operator (nn.functional.gelu, rms_norm).",
        (("PyTorch: torch.compile", f"{_TUTORIALS}/intermediate/torch_compile_tutorial.html"), _TUNING),
    ),
    "pipeline_bubble": Advice(
        "More micro-batches a step (their number over that of stages decides), an interleaved or zero-bubble schedule "
        "(torch.distributed.pipelining: ScheduleInterleaved1F1B, ScheduleInterleavedZeroBubble), and stages that take "
        "equally long: compare their ranks in Distributed.",
        (("PyTorch: pipeline parallelism", f"{DOCS}/distributed.pipelining.html"),),
    ),
    "offload_copies": Advice(
        "Where memory is left, keep gradients and the optimizer's state on the device, or shard them over more ranks. Else "
        "pin the memory, and let copies overlap: gradients go while the backward pass runs, parameters come back as each "
        "is updated.",
        (("DeepSpeed: ZeRO-Offload", "https://www.deepspeed.ai/tutorials/zero-offload/"),),
    ),
    "expert_imbalance": Advice(
        "Balance the router: an auxiliary loss or a bias for each expert, a limit of tokens an expert (capacity factor), or "
        "experts placed by their load. Several experts on a rank even it out.",
        (("GShard", "https://arxiv.org/abs/2006.16668"),),
    ),
    "communication.sharding": Advice(
        "Gather parameters earlier: fully_shard prefetches one module ahead; set_modules_to_forward_prefetch() and "
        "set_modules_to_backward_prefetch() prefetch more (FSDP: forward_prefetch=True, "
        "BackwardPrefetch.BACKWARD_PRE), reshard_after_forward=False keeps them for the backward pass, and HSDP shards "
        "within a machine alone.",
    ),
    "recomputation": Advice(
        "Where memory is left, keep more: checkpoint fewer modules (the largest activations first, every second layer), or "
        "only what is cheap to compute: torch.utils.checkpoint.create_selective_checkpoint_contexts keeps the results of "
        "products and attention. Memory, or a snapshot, tells how much the step has left.",
        (("PyTorch: checkpoint", f"{DOCS}/checkpoint.html"),),
    ),
    "redundant_casts": Advice(
        "Cast once and keep the result: weights by one torch.autocast around all passes of a step (it remembers them until "
        "it ends), or model.to(torch.bfloat16); leave out .float() and .half() in a row.",
        (AMP, _TUNING),
    ),
    "redundant_copies": Advice(
        "Make tensors in the layout in which they are used: leave out .contiguous(), use .view() and .transpose() late, and "
        "reshape before a product instead of after it.",
        (("PyTorch: tensor views", f"{DOCS}/tensor_view.html"), _TUNING),
    ),
    "redundant_copies.convolutions": Advice(
        "Keep convolutions in channels_last: model.to(memory_format=torch.channels_last) and the same for the input, with "
        "torch.backends.cudnn.benchmark = True.",
        (("PyTorch: channels_last", f"{_TUTORIALS}/intermediate/memory_format_tutorial.html"),),
    ),
    "out_of_memory.full": Advice(
        "Use a smaller batch or shorter inputs, autocast, torch.utils.checkpoint or a sharded optimizer state.",
        (("PyTorch: checkpoint", f"{DOCS}/checkpoint.html"), _CUDA_MEMORY),
    ),
    "out_of_memory.one": Advice(
        "Check the shapes at this line: a broadcast, an index or a full attention matrix may be larger than meant. If it is "
        "meant, compute it in chunks.",
        (_CUDA_MEMORY,),
    ),
    "out_of_memory.pieces": Advice(
        "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True and keep shapes constant: enough memory is reserved, but in "
        "pieces.",
        (_CUDA_MEMORY,),
    ),
    "out_of_memory.cpu": Advice(
        "Free memory of the machine: fewer DataLoader workers (num_workers, prefetch_factor), smaller batches, or data read "
        "from disk (mmap)."
    ),
    "device_copies": Advice(
        "Leave out .clone() and .contiguous(), and write results into place with out= or copy-free views. Allocate once "
        "what grows by torch.cat(), such as caches, and fill slices of it.",
        (("PyTorch: tensor views", f"{DOCS}/tensor_view.html"), _TUNING),
    ),
    "memory_limit": Advice(
        "Recompute activations (gradient checkpointing) or use mixed precision before the next larger batch fails.",
        (("PyTorch: checkpoint", f"{DOCS}/checkpoint.html"), AMP),
    ),
    "driver_memory_calls": Advice(
        "The reserved curve should be flat. Keep shapes constant, warm up with the largest input, and leave "
        "torch.cuda.empty_cache() out of the loop: what it gives back is asked for again.",
        (_CUDA_MEMORY,),
    ),
    "driver_memory_calls.segments": Advice(
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True lets segments grow instead of adding new ones."
    ),
    "memory_growth": Advice(
        "Look for what keeps tensors from step to step: lists of losses or outputs that hold their graph (use .item() or "
        ".detach()), hooks, retain_graph=True.",
        (("PyTorch: what keeps memory", f"{DOCS}/notes/faq.html"),),
    ),
    "memory_cache": Advice(
        "See whether it stops growing: keep it to a fixed number of entries, or of shapes (pad inputs to a few lengths)."
    ),
    "memory_fragmentation": Advice("", (_CUDA_MEMORY,)),
    "memory_fragmentation.before": Advice(
        "If an evaluation or a warm-up with larger inputs came before, torch.cuda.empty_cache() once after it gives the rest "
        "back. Within the process it is not lost: the next larger input uses it."
    ),
    "memory_fragmentation.shapes": Advice(
        "Pad inputs to a few lengths and warm up with the largest one. "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True lets segments grow instead of adding new ones."
    ),
    "memory_fragmentation.sizes": Advice(
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True avoids most gaps; without it max_split_size_mb keeps large "
        "blocks whole. Allocate what stays (the optimizer's state, caches) before the first step."
    ),
    "memory_fragmentation.large": Advice(
        "Allocate the largest tensors first and reuse them, or compute them in pieces. "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True lets segments grow instead of adding new ones."
    ),
    "memory_fragmentation.other": Advice("A memory snapshot shows the pools and streams that hold it."),
    "memory_shapes": Advice("Pad inputs to a few lengths (buckets), and warm up with the largest one."),
    "memory_spike": Advice(
        "Compute it in pieces (of the batch, of the vocabulary), in place, in 16 bit, or with a fused operator that never "
        "holds it."
    ),
    "snapshot_leak": Advice(
        "Look for what holds the tensors: losses kept with their graph (append loss.item() or loss.detach()), lists and "
        "caches without a bound, hooks, tensors in exceptions. gc.collect() that frees them tells of reference cycles.",
        (("PyTorch: memory FAQ", f"{DOCS}/notes/faq.html#my-model-reports-cuda-runtime-error-2-out-of-memory"),),
    ),
    "snapshot_fragmentation": Advice(
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True lets segments grow instead of adding new ones; where it is not "
        "supported, max_split_size_mb keeps large blocks whole.",
        (_CUDA_MEMORY,),
    ),
    "snapshot_fragmentation.varying": Advice("Pad or bucket inputs to a few constant shapes, the largest one first."),
    "snapshot_fragmentation.pinned": Advice("Allocate what stays before the first step, or keep it on the host."),
    "snapshot_fragmentation.mixed": Advice("Keep shapes constant, and allocate what lives long before what does not."),
    "snapshot_fragmentation.pool": Advice(
        "Let captured graphs share one pool (torch.cuda.graph_pool_handle()), and let go of graphs and pools that are no "
        "longer used: the memory of a pool goes back with its last graph."
    ),
    "snapshot_fragmentation.small": Advice("Make many small tensors that live together one tensor."),
    "snapshot_fragmentation.rest": Advice(
        "torch.cuda.empty_cache() once after the phase that needed it gives it back."
    ),
    "snapshot_out_of_memory.full": Advice(
        "Hold less: a smaller batch or shorter inputs, 16 bit (autocast), activation checkpointing, a sharded optimizer "
        "state.",
        (("PyTorch: checkpoint", f"{DOCS}/checkpoint.html"), _CUDA_MEMORY),
    ),
    "snapshot_out_of_memory.one": Advice(
        "Look at the line that asked: a request of this size often is a shape that nobody meant (a broadcast, an index, a "
        "full matrix of attention). One that is meant can be computed in chunks.",
        (_CUDA_MEMORY,),
    ),
    "snapshot_out_of_memory.gap": Advice(
        "Look at PYTORCH_CUDA_ALLOC_CONF (max_split_size_mb) and at torch.cuda.set_per_process_memory_fraction(), and record "
        "from the beginning on.",
        (_CUDA_MEMORY,),
    ),
    "snapshot_out_of_memory.pieces": Advice(
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True lets segments grow, so that free memory is one piece. Where it is "
        "not supported, max_split_size_mb keeps large blocks whole and garbage_collection_threshold gives unused ones back "
        "before memory is full. Constant shapes keep pieces from arising.",
        (_CUDA_MEMORY,),
    ),
    "snapshot_out_of_memory.pieces.expandable": Advice(
        "Segments are expandable already: keep shapes constant (pad or bucket inputs, the largest first), and allocate what "
        "stays before the first step.",
        (_CUDA_MEMORY,),
    ),
    "snapshot_out_of_memory.elsewhere": Advice(
        "Keep large tensors on one stream, and let CUDA graphs share one pool (torch.cuda.graph_pool_handle()): what one "
        "stream or pool has freed serves no other.",
        (_CUDA_MEMORY,),
    ),
    "snapshot_reserved_swings": Advice(
        "Take torch.cuda.empty_cache() out of the loop. Without one, memory is nearly full and the allocator retries: keep "
        "shapes constant, or leave it more room.",
        (_CUDA_MEMORY,),
    ),
    "snapshot_rising_peaks": Advice(
        "See what becomes larger: longer sequences or larger images, a batch that grows, outputs that are kept until the end "
        "of the step. Bound it (truncate, sort into buckets by length, or give each batch a number of tokens)."
    ),
    "snapshot_single_peak": Advice(
        "Make this block smaller or part of it at a time: in chunks, in 16 bit, or in place; a fused loss needs no full "
        "logits."
    ),
    "driver_memory_calls.no_steps": Advice("Call profiler.step() once an iteration to tell the warm-up from the rest."),
}
"""What to do about findings on the training."""
