"""Matching of calls on different ranks to collectives."""
