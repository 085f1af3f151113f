"""What became of comparisons, and the words in which people read it."""
