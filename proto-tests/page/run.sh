#!/usr/bin/env bash
# usage: run.sh BIN_DIR [--pictures DIR]
#
# The status page in a real browser, with the `switchboardd`, `switchboard` and children in BIN_DIR. Debian's chromium
# is installed where it is missing and we are root; where it cannot be had it says so and ends well, except where CI is
# set. With `--pictures` it makes the pictures of the README instead.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
me=page

[ $# -ge 1 ] || {
    echo "usage: run.sh BIN_DIR [--pictures DIR]" >&2
    exit 2
}
for binary in switchboardd switchboard mock-child text-child evil-child; do
    [ -x "$1/$binary" ] || {
        echo "page: there is no \`$binary\` in $1: build it first" >&2
        exit 2
    }
done

# What the sourced file skips with.
ended() {
    status=$?
    if [ "$status" -eq 77 ]; then
        case "${CI:-}" in
        "" | false | 0) exit 0 ;;
        *)
            echo "page: FAILED: may not be skipped in CI" >&2
            exit 1
            ;;
        esac
    fi
}
trap ended EXIT
# shellcheck source=../node/node.sh
. "$here/../node/node.sh"

browser() {
    command -v "${SWITCHBOARD_BROWSER:-chromium}" || command -v chromium-browser || command -v google-chrome
}
if ! browser >/dev/null && [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
    echo "page: installing chromium" >&2
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; } \
        >/dev/null || echo "page: apt-get failed" >&2
fi
browser >/dev/null || skip "chromium missing (Debian: apt install chromium)"

"$here/install.sh"
trap - EXIT
export SWITCHBOARD_BROWSER
SWITCHBOARD_BROWSER=$(browser)
exec "$NODE" "$here/run.mjs" "$@"
