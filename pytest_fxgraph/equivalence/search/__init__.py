"""Search for an input at which a graph does something else than its model: other sizes, values, layouts and modes."""
