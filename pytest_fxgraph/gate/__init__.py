"""The comparison of a pytest run: fixtures, attempts, the session that writes, and what it tells."""
