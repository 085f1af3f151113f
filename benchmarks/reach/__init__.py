"""How many real models can be traced, by which means, and what stops the others."""
