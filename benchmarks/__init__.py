"""Speed and memory, measured beside other tools in one run."""
