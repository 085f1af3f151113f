"""What is known of operators, independent of any graph."""
