"""Which calls of different ranks are one collective, and numbers by key."""
