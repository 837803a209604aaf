"""The view ``ranks_kernels``."""
