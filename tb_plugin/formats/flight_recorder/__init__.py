"""Dumps of PyTorch's flight recorder: pickles (read, never loaded) and JSON."""

from tb_plugin.formats.flight_recorder.reader import FlightRecorderReader

__all__ = ["FlightRecorderReader"]
