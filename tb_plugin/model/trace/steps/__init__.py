"""Steps of a trace: recorded, annotated, replayed or repeated."""
