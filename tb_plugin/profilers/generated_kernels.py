"""Names of torch.compile's regions and generated kernels."""

from __future__ import annotations

from tb_plugin.model.trace.recorder import CompiledNames

_OPERATORS = """
_adaptive_avg_pool2d _adaptive_avg_pool2d_backward _embedding_bag _euclidean_dist _fused_rms_norm _fused_rms_norm_backward
_grouped_mm _int_mm _log_softmax _log_softmax_backward_data _low_memory_max_pool_with_offsets
_native_batch_norm_legit_functional _native_batch_norm_legit_no_training _scaled_dot_product_cudnn_attention
_scaled_dot_product_cudnn_attention_backward _scaled_dot_product_efficient_attention
_scaled_dot_product_efficient_attention_backward _scaled_dot_product_flash_attention
_scaled_dot_product_flash_attention_backward _scaled_dot_product_flash_attention_for_cpu
_scaled_dot_product_flash_attention_for_cpu_backward _scaled_mm _softmax _softmax_backward_data _to_copy _unsafe_index
_unsafe_index_put _unsafe_masked_index _unsafe_view _weight_norm adaptive_max_pool2d as_strided
as_strided_scatter avg_pool2d avg_pool2d_backward binary_cross_entropy binary_cross_entropy_with_logits bitwise_and
bitwise_not bitwise_or bitwise_xor clamp_max clamp_min constant_pad_nd convolution_backward convert_element_type
elu_backward embedding_backward embedding_dense_backward empty_like empty_strided flex_attention flex_attention_backward
floor_divide full_like gelu_backward hardsigmoid_backward hardswish_backward hardtanh_backward index_add index_copy
index_fill index_put index_select kl_div layer_norm leaky_relu leaky_relu_backward linalg_vector_norm log_sigmoid_backward
log_sigmoid_forward logical_and logical_not logical_or masked_fill masked_scatter max_pool2d_with_indices
max_pool2d_with_indices_backward mse_loss mse_loss_backward nan_to_num native_batch_norm native_batch_norm_backward
native_dropout native_dropout_backward native_group_norm native_group_norm_backward native_layer_norm
native_layer_norm_backward new_empty new_full new_ones new_zeros nll_loss_backward nll_loss_forward one_hot ones_like
prepare_softmax_online rand_like randn_like reflection_pad2d repeat_interleave rms_norm scalar_tensor scatter_add
scatter_reduce select_backward select_scatter sigmoid_backward silu_backward slice_backward slice_scatter
smooth_l1_loss smooth_l1_loss_backward softplus_backward split_with_sizes std_mean tanh_backward threshold_backward
upsample_bilinear2d upsample_nearest2d upsample_nearest2d_backward var_mean view_as_complex zeros_like
"""

COMPILED = CompiledNames(
    lookup=r"^TorchDynamo Cache Lookup$",
    compile_id=r"_data: (?:.*, )?compile_id=([^,\s]+)$",
    wrapping=r"^(?:CompiledFunction(?:Backward)?|Pregraph bytecode|AOTDispatcher Runtime Wrapper Prologue)$",
    resumed=r"^(.*)\(\d+\): torch_dynamo_resume_in_(.+)_at_(\d+)$",
    # Triton kernels are named by type. Host kernels appear in ranges that a compiler option enables.
    kernel=r"^(?:triton_([a-z]{3})|(?:graph_\d+_)?cpp)_fused_(.+?)(?:_\d+)?$",
    kinds=(
        ("poi", "pointwise"),
        ("red", "reduction"),
        ("per", "persistent reduction"),
        ("for", "foreach"),
        ("spl", "split scan"),
        ("tem", "template"),
    ),
    operators=tuple(_OPERATORS.split()),
    file="kernel_file",
)
"""Checked with PyTorch 2.13 (`samples/compiled_breaks_cpu`), and with another 2.x version (Triton on an MI300X)."""
