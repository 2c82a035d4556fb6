#!/usr/bin/env bash
# usage: run.sh BIN_DIR | --direct
#
# The interop tests against the `switchboardd` and `switchboard` in BIN_DIR, with the `era-child` beside them as a
# child. Without npm or Python it says so and ends well, except where CI is set: there nothing may be skipped.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

[ $# -eq 1 ] || {
    echo "usage: run.sh BIN_DIR | --direct" >&2
    exit 2
}
if [ "$1" != --direct ]; then
    for binary in switchboardd switchboard era-child; do
        [ -x "$1/$binary" ] || {
            echo "interop: there is no \`$binary\` in $1: build it first" >&2
            exit 2
        }
    done
fi

status=0
"$here/install.sh" || status=$?
if [ "$status" -eq 77 ]; then
    case "${CI:-}" in
    "" | false | 0) exit 0 ;;
    *)
        echo "interop: FAILED: may not be skipped in CI" >&2
        exit 1
        ;;
    esac
fi
[ "$status" -eq 0 ] || exit "$status"
exec "$here/.cache/node" "$here/run.mjs" "$1"
