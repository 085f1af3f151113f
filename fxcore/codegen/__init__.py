"""Nodes to Python source."""
