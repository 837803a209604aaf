"""HTTP in, HTTP out: parse, call the service, encode."""
