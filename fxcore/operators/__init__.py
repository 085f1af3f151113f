"""What is known of operators, independent of any graph: how Python writes them, and a table of their effects."""
