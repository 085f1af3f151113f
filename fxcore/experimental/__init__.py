"""Optimisations and normal forms, under the names that torch.fx.experimental gives them."""
