"""Tables: one golden file for many models, a line each, with the numbers of each model's capture."""
