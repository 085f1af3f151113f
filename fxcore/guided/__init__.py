"""Tracing with an example: proxies carry the example's values, and each answer to Python becomes a guard."""
