"""HTTP routes: request parsing and response encoding."""
