#!/bin/sh
# Checks the graphs of a project in any build service, or on a desk:
#
#     sh check.sh tests/vision tests/text
#
# Each argument is a shard, and all run at the same time. What they report is merged into $REPORTS/fx.md, which is printed.
# Ends with 1 if a test failed or no test asked for a golden, and with 2 if that could not be found out.
#
#   REPORTS         the folder of the reports (default: reports)
#   PYTEST_ADDOPTS  further options for pytest
set -u
reports=${REPORTS:-reports}
[ $# -gt 0 ] || set -- tests
rm -rf "$reports"

number=0
processes=
for shard in "$@"; do
    number=$((number + 1))
    folder=$reports/$number
    mkdir -p "$folder" || exit 2
    python -m pytest "$shard" --fx-received --fx-unused=ignore --junit-xml="$folder/junit.xml" \
        --fx-report="$folder/fx.json" --fx-report="$folder/fx.html" > "$folder/log.txt" 2>&1 &
    processes="$processes $!"
done

status=0
number=0
for process in $processes; do
    number=$((number + 1))
    wait "$process" || status=1
    cat "$reports/$number/log.txt"
done

# Where a shard did not even begin, its log says why, and there is nothing to merge.
python -m pytest_fxgraph.command.main report "$reports"/*/fx.json -o "$reports/fx.md"
[ $? -le 1 ] || exit 2
cat "$reports/fx.md"
[ -z "${GITHUB_STEP_SUMMARY:-}" ] || cat "$reports/fx.md" >> "$GITHUB_STEP_SUMMARY"
python -m pytest_fxgraph.command.main report --unused "$reports"/*/fx.json
case $? in
    0) exit $status ;;
    1) exit 1 ;;
    *) exit 2 ;;
esac
