#!/usr/bin/env bash
# usage: install.sh [long]
#
# Installs the pinned hosts into .cache/ beside this file, or those of long/ beside theirs, and does nothing if they are
# there already. `.cache/node` is the Node to use. Exit codes: 0 there, 77 skipped (something is missing), 1 failed.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
pins=$here/${1:-}
pins=${pins%/}
cache=$pins/.cache
me=permissions
# shellcheck source=../node/node.sh
. "$here/../node/node.sh"

[ "$("$NODE" -p 'process.platform + process.arch')" = linuxx64 ] || skip "the hosts are pinned for Linux on x86_64"
if ldd --version 2>&1 | grep -qi musl; then skip "the hosts are pinned for glibc"; fi

stamp=$({
    cat "$pins/package-lock.json"
    "$NODE" -p 'process.execPath + process.version + process.arch'
} | git hash-object --stdin)
[ "$(cat "$cache/stamp" 2>/dev/null)" != "$stamp" ] || exit 0

echo "permissions: installing the pinned hosts" >&2
rm -rf "$cache"
npm_ci "$pins" "$cache/npm"
ln -s "$NODE" "$cache/node"
echo "$stamp" >"$cache/stamp"
