"""Python source from nodes."""
