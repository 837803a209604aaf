"""The kernels of the invented training."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Kernel:
    """What one kernel is, and how long it takes at the normal frequency."""

    name: str
    type: str
    core: str
    ns: int
    inputs: str
    outputs: str
    bound: str = ""

    @property
    def task_type(self) -> str:
        return self.core


CAST = Kernel("aclnnCast_CastAiCore_Cast", "Cast", "AI_VECTOR_CORE", 62_000, "512,1024", "512,1024")
LAYOUT = Kernel("trans_TransData_0", "TransData", "AI_VECTOR_CORE", 88_000, "512,1024", "64,32,16,16")
EMBEDDING = Kernel(
    "aclnnEmbedding_GatherV2AiCore_GatherV2",
    "GatherV2",
    "AI_VECTOR_CORE",
    240_000,
    "32000,1024;512",
    "512,1024",
    "mte2",
)
PRODUCT = Kernel(
    "aclnnAddmm_MatMulCommon_MatMulV2", "MatMulV2", "AI_CORE", 610_000, "512,1024;1024,1024", "512,1024", "mac"
)
GELU = Kernel("aclnnGelu_GeluAiCore_Gelu", "Gelu", "AI_VECTOR_CORE", 96_000, "512,1024", "512,1024")
MASK = Kernel("aclnnDropoutGenMaskV2_DSAGenBitMask_DSAGenBitMask", "DSAGenBitMask", "DSA_SQE", 12_000, "N/A", "65536")
SOFTMAX = Kernel(
    "aclnnLogSoftmax_LogSoftmaxV2AiCore_LogSoftmaxV2", "LogSoftmaxV2", "AI_VECTOR_CORE", 74_000, "512,1024", "512,1024"
)
LOSS = Kernel("aclnnNLLLoss_NLLLossAiCore_NLLLoss", "NLLLoss", "MIX_AIV", 41_000, "512,1024;512;1024", ";")
SOFTMAX_BACK = Kernel(
    "aclnnLogSoftmaxBackward_LogSoftmaxGrad_LogSoftmaxGrad", "LogSoftmaxGrad", "AI_VECTOR_CORE", 83_000,
    "512,1024;512,1024", "512,1024",
)  # fmt: skip
GELU_BACK = Kernel(
    "aclnnGeluBackward_GeluGradAiCore_GeluGrad", "GeluGrad", "AI_VECTOR_CORE", 112_000, "512,1024;512,1024", "512,1024"
)
PRODUCT_BACK = Kernel(
    "aclnnMm_MatMulCommon_MatMulV2", "MatMulV2", "AI_CORE", 580_000, "512,1024;1024,1024", "512,1024", "mac"
)
WEIGHT_BACK = Kernel(
    "aclnnMm_MatMulCommon_MatMulV3", "MatMulV3", "MIX_AIC", 640_000, "1024,512;512,1024", "1024,1024", "mac"
)
EMBEDDING_BACK = Kernel(
    "aclnnEmbeddingDenseBackward_EmbeddingDenseGradV2_EmbeddingDenseGradV2", "EmbeddingDenseGradV2", "AI_VECTOR_CORE",
    430_000, "512,1024;512", "32000,1024", "mte2",
)  # fmt: skip
SUM_BACK = Kernel(
    "aclnnReduceSum_ReduceSumOpAiCore_ReduceSum", "ReduceSum", "AI_VECTOR_CORE", 390_000, "512,1024", "1024"
)
ADAM = Kernel(
    "aclnnApplyAdamWV2_ApplyAdamWV2_ApplyAdamWV2", "ApplyAdamWV2", "AI_VECTOR_CORE", 520_000,
    "1024,1024;1024,1024;1024,1024;1024,1024;1", "1024,1024;1024,1024;1024,1024", "mte2",
)  # fmt: skip
NONZERO = Kernel("aclnnNonzeroV2_NonZeroAiCpu_NonZero", "NonZero", "AI_CPU", 150_000, "1024", "2,1024")
