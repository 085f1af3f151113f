"""Proxies that carry the value which an example gives them, and the trace that makes them."""
