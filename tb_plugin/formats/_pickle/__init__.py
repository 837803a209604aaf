"""Reading of pickles without executing code (decision 16)."""
