"""What operators and modules do beside computing their result, as a golden records it."""
