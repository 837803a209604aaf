"""Who is late, what it costs, and why."""
