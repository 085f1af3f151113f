"""Edits: the changes of a difference put together as a person sees them, each recogniser in a file of its own."""
