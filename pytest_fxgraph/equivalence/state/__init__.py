"""State of modules, generators and inputs: before a run, after it, and restored."""
