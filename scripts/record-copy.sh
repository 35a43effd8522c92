#!/usr/bin/env bash
# Record examples/copy.sys: `cp -r` of 120 files on an emulated cheetah-36es. Then run the same copy without a trace.
#
#   scripts/record-copy.sh [RUNS]          runs without a trace on each of two disks [default: 3]
#
# Needs root, FUSE, loop devices and tracefs, pyarrow for Python, and a machine that does nothing else.
# Settings: SEEKLAB (the program).
set -euo pipefail
cd "$(dirname "$0")/.."
runs=${1:-3}
seeklab=${SEEKLAB:-target/release/seeklab}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

tree='for folder in $(seq 6); do
    mkdir -p a/$folder
    for file in $(seq 20); do head -c $((1000 + (folder * 7919 + file * 104729) % 60000)) /dev/urandom > a/$folder/$file; done
done'
copy() {
    "$seeklab" run "$@" --fs ext2 --size 600MiB --host-scheduler none --dirty-limit 4MiB --wbt off --quiet --setup "$tree" -- cp -r a b
}
copy cheetah-36es --system "$folder" > /dev/null
# Names of other programs of the machine stay out of the example.
python3 - "$folder"/*.sys/initial.parquet <<'END'
import sys
import pyarrow
import pyarrow.parquet
rows = pyarrow.parquet.read_table(sys.argv[1])
about = pyarrow.parquet.read_metadata(sys.argv[1]).metadata
place = rows.schema.get_field_index("name")
names = pyarrow.array([""] * len(rows), rows.schema.field(place).type)
blank = rows.set_column(place, rows.schema.field(place), names)
about = {key: value for key, value in about.items() if key.startswith(b"seeklab")}
pyarrow.parquet.write_table(blank.replace_schema_metadata(about), sys.argv[1], compression="zstd")
END
rm -rf examples/copy.sys
mv "$folder"/*.sys examples/copy.sys
for disk in cheetah-36es hp-c2247a; do
    copy "$disk" --repeat "$runs" --json |
        python3 -c 'import json, sys; s = json.load(sys.stdin)["devices"][0]; print(s["device"], s["statistics"]["elapsed_s"])'
done
