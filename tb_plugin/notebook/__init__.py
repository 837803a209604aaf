"""Profiles in notebooks: short HTML, and the page in a frame."""
