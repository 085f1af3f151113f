#!/usr/bin/env bash
# Installs the packages of fixtures/reach into an environment that has the project and torch already:
#   tests/zoo/install.sh [PYTHON]
# Without dependencies, so that none brings another torch or CUDA; what they need is on the list, too. A package that
# cannot be installed is named at the end, and its models are skipped.
set -uo pipefail
cd "$(dirname "$0")"
python=${1:-python}
list=packages.txt
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
