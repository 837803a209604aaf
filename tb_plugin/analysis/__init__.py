"""Analyses shared by several views."""
