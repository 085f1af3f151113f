#!/bin/sh
# Shows a replay in a copy of this folder: of a refactoring, which changes no graph, and of an edit, which changes some.
#
#     sh try.sh
#
# PYTHON   the interpreter (default: python)
set -eu
python=${PYTHON:-python}
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export XDG_CACHE_HOME="$scratch/cache"
mkdir "$scratch/project"
cp -R "$here/encoder.py" "$here/tests" "$scratch/project"
cd "$scratch/project"
git init -q .
git add .
git -c user.name=you -c user.email=you@example.com commit -q -m "the base"

replay() {
    "$python" -m pytest_fxgraph.command.main replay HEAD "$@" -- -q -p no:randomly tests
}
replace() {
    "$python" -c 'import sys, pathlib
file = pathlib.Path("encoder.py")
file.write_text(file.read_text().replace(*sys.argv[1:]))' "$1" "$2"
}

echo "== a refactoring: the feed-forward part becomes a method"
replace 'self.down(nn.functional.gelu(self.up(self.norm(x))))' 'self.feed_forward(self.norm(x))

    def feed_forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(nn.functional.gelu(self.up(x)))'
replay --expect same

echo "== an edit: the approximation of gelu"
replace 'nn.functional.gelu(self.up(x))' 'nn.functional.gelu(self.up(x), approximate="tanh")'
replay && exit 2
replay --expect-edit '*gelu*'
