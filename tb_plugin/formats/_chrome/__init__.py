"""What all dialects of Chrome's trace JSON share: text from bytes, events from text, what damaged writers need, columns.

A dialect is a reader of its own beside this package (``kineto``, ``chrome_json``). It says which files are its own, what an
event's arguments are (a msgspec Struct) and what the events mean; this package knows neither tools nor vendors.
"""
