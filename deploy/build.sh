#!/usr/bin/env bash
# usage: deploy/build.sh [OPTION]…
#
# Builds the four programs as they are shipped; passes the options (e.g. --target) to cargo. Two commands, because cargo
# builds all packages of one command with the features that any of them needs: the commands' D-Bus client needs tokio's
# threads, with which each shim would take 0.1 MiB more and the daemon a library more. BUILD is the command that builds,
# if it is not `cargo build`.
set -euo pipefail
cd "$(dirname "$0")/.."
read -ra build <<<"${BUILD:-cargo build}"
"${build[@]}" --release --locked "$@" -p switchboard-ctl
"${build[@]}" --release --locked "$@" -p switchboardd -p switchboard-guard -p switchboard-shim
