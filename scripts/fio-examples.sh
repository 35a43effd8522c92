#!/usr/bin/env bash
# Each job file of a folder, such as `examples` of fio's source package, on a model in virtual time: whether it runs, or why it
# is refused. Usage: scripts/fio-examples.sh FOLDER [SECONDS]. A file that takes longer than SECONDS counts as `long`. Files with
# `verify` run on a sparse file of 256 MiB, because a model carries no data.
set -euo pipefail
folder=$(realpath "$1") seconds=${2:-60}
cd "$(dirname "$0")/.."
seeklab=$(realpath "${SEEKLAB:-target/release/seeklab}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
ran=0 refused=0 long=0 skipped=0
for file in "$folder"/*.fio; do
    name=$(basename "$file")
    code=0
    timeout "$seconds" "$seeklab" bench "$file" --on model:constant --interval 0s --json >out.json 2>err.txt || code=$?
    if [ "$code" = 2 ] && grep -q 'carries no data' err.txt; then
        code=0
        rm -f disk.img
        truncate -s 256M disk.img
        timeout "$seconds" "$seeklab" bench "$file" --on disk.img --destroy disk.img --interval 0s --json >out.json 2>err.txt || code=$?
    fi
    case $code in
    0) ran=$((ran + 1)); echo "$name: runs, $(jq '.requests' out.json) requests" ;;
    1) ran=$((ran + 1)); echo "$name: runs, $(jq '.requests' out.json) requests; $(grep '^error' err.txt)" ;;
    124) long=$((long + 1)); echo "$name: long" ;;
    2)
        refused=$((refused + 1)); echo "$name: $(sed -n 's/^error: [^,:]*[,:] //p' err.txt | head -1)"
        code=0
        timeout "$seconds" "$seeklab" bench "$file" --on model:constant --interval 0s --skip-unknown --json >out.json 2>err.txt || code=$?
        [ "$code" != 0 ] || { skipped=$((skipped + 1)); echo "    with --skip-unknown: $(jq '.requests' out.json) requests"; }
        ;;
    *) echo "$name: failed with $code: $(head -1 err.txt)"; exit 1 ;;
    esac
done
echo "$ran run, $refused are refused ($skipped of them run with --skip-unknown), $long take longer than $seconds s"
