"""Names in traces of distributed PyTorch training.

A comment gives the source of each name (PyTorch 2.13 for FSDP, pipelining and c10d). Not checked with a real trace.
"""

from __future__ import annotations

from tb_plugin.model.trace.recorder import ParallelNames

PARALLEL = ParallelNames(
    # torch/distributed/fsdp/_fully_shard (FSDP::), fsdp/_runtime_utils.py; DeepSpeed's coordinator, as Python calls.
    sharding=r"^FSDP::|^fsdp::|^FullyShardedDataParallel\._"
    r"|deepspeed[/\\]runtime[/\\]zero[/\\]partitioned_param_coordinator\.py\(\d+\): "
    r"|deepspeed[/\\]runtime[/\\]zero[/\\]stage\w+\.py\(\d+\): (?:.*\.)?\w*(?:reduce|partition)\w*$",
    ahead=r"^FSDP::\w*prefetch|^FullyShardedDataParallel\._\w*prefetch|partitioned_param_coordinator\.py\(\d+\): \w*prefetch",
    copying_in=r"^fsdp::(?:all_gather_copy_in|chunk_cat)$",
    copying_out=r"^FSDP::all_gather_copy_out|^fsdp::split_with_sizes_copy$",
    # c10d's operators, and the names of process group work.
    sending=r"^c10d::send$|^nccl:send\b",
    receiving=r"^c10d::recv_(?:any_source_)?$|^nccl:recv\b",
    exchanging=r"^nccl:coalesced$",
    # torch/distributed/pipelining/schedules.py
    micro_batch=r"^(?:Forward|Backward) \d+$|^Stage \d+ (?:Forward|Backward)",
    # Ranges of PyTorch's optimizers, and DeepSpeed's ZeRO-Offload, whose Adam runs on the host.
    # FSDP's hooks around the root's forward pass move inputs to the device.
    offloading=r"^Optimizer\.step#|^FSDP::(?:pre_|post_|root_post_|all_gather|\w+_prefetch)"
    r"|^FullyShardedDataParallel\._(?:pre|post)_"
    r"|deepspeed[/\\]runtime[/\\]zero[/\\]stage\w+\.py\(\d+\): ",
    # vLLM, SGLang (moe_align_block_size, topk_softmax), Megatron (permute), AITER (moe_sorting).
    routing=r"(?i)moe_?align|moe_?sort|top_?k_?(?:softmax|gating)|grouped_?topk|moe_?(?:un)?permute|moe_?sum",
    experts=r"(?i)fused_?moe|moe_?gemm|_grouped_mm$|grouped_?gemm|groupedmatmul|matmul_ogs",
    # DeepEP, Megatron's token dispatchers, and ranges with such names.
    dispatching=r"(?i)deep_ep::.*dispatch|token_dispatch|moe\S*dispatch|expert\S*dispatch",
    combining=r"(?i)deep_ep::.*combine|token_combine|moe\S*combine|expert\S*combine",
    # Megatron's parallel_state.py (TENSOR_MODEL_PARALLEL_GROUP, DATA_PARALLEL_GROUP_WITH_CP), DeviceMesh (mesh_tp,
    # mesh_dp_shard), torchtitan's flattened meshes (dp_cp, fsdp).
    dimensions=(
        ("tensor", r"(?i)(?:^|_)e?tp(?:_|$)|tensor|^model_parallel"),
        ("pipeline", r"(?i)(?:^|_)pp(?:_|$)|pipeline|^model_parallel"),
        ("data", r"(?i)(?:^|_)(?:e?dp|ddp|fsdp|hsdp|zero)\d?(?:_|$)|data_parallel|replicate|shard"),
        ("expert", r"(?i)(?:^|_)(?:ep|etp|edp)(?:_|$)|expert|(?:^|_)moe(?:_|$)"),
        ("context", r"(?i)(?:^|_)(?:cp|sp)(?:_|$)|context|sequence_parallel"),
    ),
    split_sizes=("In split size", "Out split size"),
)
