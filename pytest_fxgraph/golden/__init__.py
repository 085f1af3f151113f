"""Where golden files lie, and what a test run does with them."""
