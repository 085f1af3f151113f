"""The outcomes of comparisons, and the texts and files in which people read them."""
