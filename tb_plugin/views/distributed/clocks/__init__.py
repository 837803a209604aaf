"""How far the clocks of ranks are apart, and who came late by them."""
