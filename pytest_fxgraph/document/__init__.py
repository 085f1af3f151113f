"""A graph as text: plain data, and golden files of it. The builder and its parts alone know torch and fxcore."""
