"""Documents compared at a level: nodes are paired first, then deepdiff names the fields that differ."""
