"""Answers to requests about loaded profiles."""
