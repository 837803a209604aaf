"""Shared decoding of Chrome's trace JSON for all dialects.

A dialect is a reader beside this package (``kineto``, ``chrome_json``). It defines file names, event arguments (a
msgspec Struct) and the meaning of events. This package knows no tools or vendors.
"""
