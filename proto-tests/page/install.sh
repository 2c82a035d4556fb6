#!/usr/bin/env bash
# Installs the pinned package that drives the browser into .cache/ beside this file, and does nothing if it is there
# already. Exit codes: 0 there, 77 skipped (a program is missing), 1 failed.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=$here/.cache
me=page
# shellcheck source=../node/node.sh
. "$here/../node/node.sh"

stamp=$(git hash-object "$here/package-lock.json")
if [ "$(cat "$cache/stamp" 2>/dev/null)" = "$stamp" ]; then
    exit 0
fi

echo "page: installing what drives the browser" >&2
rm -rf "$cache"
npm_ci "$here" "$cache"
echo "$stamp" >"$cache/stamp"
