"""Facts about operators without any graph: their Python syntax, and a table of their effects."""
