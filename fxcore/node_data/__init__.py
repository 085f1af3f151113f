"""What a node consists of: arguments, targets, names, metadata, and how it is printed."""
