#!/bin/sh
# Fetches the source of a Debian package into a folder of downloads and prints the path of its archive:
#     fetch-source.sh PACKAGE
# Downloads are kept in ${XDG_CACHE_HOME:-~/.cache}/seeklab. Needs apt; leaves its configuration alone.
set -eu
package=$1
cache=${XDG_CACHE_HOME:-$HOME/.cache}/seeklab/$package
archive() { find "$cache" -name '*.orig.tar.*' ! -name '*.asc' 2>/dev/null | sort | head -n 1; }
if [ -z "$(archive)" ]; then
    own=$(mktemp -d)
    trap 'rm -rf "$own"' EXIT
    mkdir -p "$cache" "$own/lists/partial" "$own/parts"
    # The same archives, for source packages.
    cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null | sed -n 's/^deb /deb-src /p' \
        > "$own/sources.list"
    for file in /etc/apt/sources.list.d/*.sources; do
        [ -e "$file" ] && sed 's/^Types:.*/Types: deb-src/' "$file" > "$own/parts/${file##*/}"
    done
    set -- -o "Dir::Etc::sourcelist=$own/sources.list" -o "Dir::Etc::sourceparts=$own/parts" \
        -o "Dir::State::lists=$own/lists" -qq
    (cd "$cache" && apt-get "$@" update && apt-get "$@" source --download-only "$package") >&2
fi
[ -n "$(archive)" ] || { echo "$package: no source was found" >&2; exit 2; }
archive
