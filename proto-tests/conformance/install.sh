#!/usr/bin/env bash
# Installs the pinned conformance suite into .cache/ beside this file, and does nothing if it is there already.
# `.cache/node` is the Node to use. Exit codes: 0 there, 77 skipped (a program is missing), 1 failed.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=$here/.cache
me=conformance
# shellcheck source=../node/node.sh
. "$here/../node/node.sh"

# What is installed depends on the pins and on Node, and on nothing else.
stamp=$({
    cat "$here/package-lock.json"
    "$NODE" -p 'process.execPath + process.version + process.arch'
} | git hash-object --stdin)

if [ "$(cat "$cache/stamp" 2>/dev/null)" = "$stamp" ]; then
    exit 0
fi

echo "conformance: installing the pinned suite" >&2
rm -rf "$cache"
npm_ci "$here" "$cache"
ln -s "$NODE" "$cache/node"
echo "$stamp" >"$cache/stamp"
