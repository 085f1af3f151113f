"""Finding a pattern in a graph, saying why it was not found, and replacing it."""
