#!/usr/bin/env bash
# usage: run.sh BIN_DIR [HOST…]
#
# The permission rules of real hosts against the programs in BIN_DIR. Without a HOST those that are small enough for every
# run: claude-code and gemini; codex and opencode are installed when they are named. What cannot be installed here is said,
# and ends well except where CI is set: there nothing may be skipped.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
me=permissions

[ $# -ge 1 ] || {
    echo "usage: run.sh BIN_DIR [HOST…]" >&2
    exit 2
}
for binary in switchboardd switchboard switchboard-ctl switchboard-guard; do
    [ -x "$1/$binary" ] || {
        echo "permissions: there is no \`$binary\` in $1: build it first" >&2
        exit 2
    }
done

install() {
    local status=0
    "$here/install.sh" "$@" || status=$?
    [ "$status" -ne 77 ] || case "${CI:-}" in
    "" | false | 0) exit 0 ;;
    *)
        echo "$me: FAILED: may not be skipped in CI" >&2
        exit 1
        ;;
    esac
    [ "$status" -eq 0 ] || exit "$status"
}

install
case " $* " in
*" codex "* | *" opencode "*) install long ;;
esac
"$here/.cache/node" "$here/run.mjs" "$@"
"$here/.cache/node" "$here/reach.mjs" "$@"
