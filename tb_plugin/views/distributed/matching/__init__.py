"""Matching of calls of different ranks to collectives."""
