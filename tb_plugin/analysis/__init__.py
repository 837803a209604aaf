"""Questions that several views share; nothing here defines a view."""
