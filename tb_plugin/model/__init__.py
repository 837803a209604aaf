"""What a profile is: one package a kind."""
