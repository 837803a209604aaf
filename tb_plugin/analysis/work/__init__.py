"""Work of operator calls: floating-point operations and bytes, from recorded inputs."""
