# What the experiments share; to be sourced. Sets $here (their folder) and $work (a folder that goes at the end).

here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP

# needs PROGRAM PACKAGE: that program has to be there.
needs() {
    command -v "$1" > /dev/null || { echo "$1 is missing: install Debian's package $2" >&2; exit 2; }
}

# experiment NAME FLAGS...: runs it on the three devices, leaves NAME.html and NAME.json, prints the tables.
experiment() {
    name=$1
    shift
    if [ -z "${SEEKLAB-}" ]; then
        (cd "$here" && cargo build --release --quiet -p seeklab)
        SEEKLAB=${CARGO_TARGET_DIR:-$here/../../target}/release/seeklab
    fi
    # The dissertation switches caches off (section 6.1): the mechanics alone.
    "$SEEKLAB" run cheetah-36es --compare cheetah-36es-50krpm,immediate --bare --pacing exact --json --report "$name.html" "$@" \
        > "$name.json"
    python3 "$here/tables.py" "$name" "$name.json"
}
