"""What one rank contributes: its calls as columns, what came before each, its steps and kernels."""
