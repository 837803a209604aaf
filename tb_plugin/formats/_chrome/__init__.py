"""Decoding of Chrome's trace JSON, shared by all dialects.

A dialect is a sibling package with a reader, such as ``kineto`` or ``chrome_json``. It defines file names, event
arguments and the meaning of events. This package contains no code for a specific tool or vendor.
"""
