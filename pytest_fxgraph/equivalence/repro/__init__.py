"""The script and files that reproduce a numeric mismatch."""
