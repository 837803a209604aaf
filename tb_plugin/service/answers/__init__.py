"""Questions about loaded profiles and their answers."""
