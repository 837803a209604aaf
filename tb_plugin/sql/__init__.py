"""SQL over profiles: tables with documented columns, and a safe engine."""
