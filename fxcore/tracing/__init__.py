"""What a tracer is made of: patched functions and modules, placeholders, call sites, the user's `wrap`."""
