"""A graph as plain data, and the golden files that hold it. Only the builder and its neighbours know torch."""
