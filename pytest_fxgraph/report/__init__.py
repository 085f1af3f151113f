"""The outcomes of comparisons, with their texts and files for readers."""
