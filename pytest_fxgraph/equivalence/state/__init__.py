"""What a run may change in modules: tensors, attributes and generators, saved, searched for changes and restored."""
