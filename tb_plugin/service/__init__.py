"""Discovery, catalog, worker processes and open profiles."""
