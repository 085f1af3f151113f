"""What passes are made of: base class, manager, partitioner."""
