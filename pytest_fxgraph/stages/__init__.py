"""One graph through its lowering: what each stage added, removed and rewrote, with nodes followed through."""
