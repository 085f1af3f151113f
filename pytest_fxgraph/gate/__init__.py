"""The comparison of a pytest run: fixtures, attempts, the session that writes, and the lines at the end."""
