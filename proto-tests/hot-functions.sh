#!/usr/bin/env bash
# usage: proto-tests/hot-functions.sh
#
# Writes switchboardd/hot-functions.ld and switchboard-shim/hot-functions.ld anew, from a run of the release build under
# valgrind. The next release build uses them. Takes some minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v valgrind >/dev/null || {
    echo "valgrind is missing" >&2
    exit 1
}
packages=(-p switchboardd -p switchboard-guard -p switchboard-shim -p mock-child -p proto-tests)
# Daemon and shim keep the names of their functions, which the release profile removes.
cargo build --release --bin switchboard-ctl -p switchboard-ctl
cargo build --release --bins "${packages[@]}" \
    --config 'profile.release.package.switchboardd.strip="none"' --config 'profile.release.package.switchboard-shim.strip="none"'
PROTO_TESTS_BUILT=1 "${CARGO_TARGET_DIR:-target}/release/hot-functions"
