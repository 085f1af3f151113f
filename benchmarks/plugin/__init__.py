"""The plugin against other golden tools, whole pytest processes: `python -m benchmarks.plugin`."""
