"""Roles of device work in training on many devices."""
