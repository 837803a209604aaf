"""What operators took and gave: nodes of an execution trace with their tensors, and no times."""
