"""HTTP: parse requests, call the service, encode answers."""
