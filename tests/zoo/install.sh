#!/usr/bin/env bash
# Installs the packages of fixtures/reach, or of another list, into an environment that has the project and torch already:
#   tests/zoo/install.sh [PYTHON [LIST]]
# Without dependencies, so that none brings another torch or CUDA; what they need is on the list, too. A package that
# cannot be installed is named at the end, and its models or cases are skipped.
set -uo pipefail
python=${1:-python}
list=${2:-$(dirname "$0")/packages.txt}
if grep -vE '^#|^$' "$list" | "$python" -m pip install -q --no-deps -r /dev/stdin; then
    echo "installed all of $list"
    exit 0
fi
echo "not all at once; one by one"
missing=()
while read -r package; do
    "$python" -m pip install -q --no-deps "$package" || missing+=("$package")
done < <(grep -vE '^#|^$' "$list")
[ ${#missing[@]} -eq 0 ] || printf 'not installed: %s\n' "${missing[@]}"
