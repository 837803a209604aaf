"""The view ``kernels``."""
