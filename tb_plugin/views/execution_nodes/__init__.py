"""The view ``execution_nodes``."""
