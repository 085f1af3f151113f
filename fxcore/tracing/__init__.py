"""The parts of a tracer: patched functions and modules, placeholders, call sites, the user's `wrap`."""
