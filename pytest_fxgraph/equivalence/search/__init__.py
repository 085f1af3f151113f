"""The search for an input that shows a wrong graph: other sizes, values, layouts and modes."""
