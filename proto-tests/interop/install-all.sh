#!/usr/bin/env bash
# Installs what the steps of `cargo verify` need beyond Rust, one after the other: Debian packages where we are root, then
# the pinned packages of npm and PyPI. `cargo verify` runs it while cargo builds. What cannot be had is left out: each
# step looks for itself, and says so.
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

me=install
# shellcheck source=step.sh
. "$here/step.sh"

missing=()
for pair in gnome-keyring-daemon:gnome-keyring dbus-run-session:dbus promtool:prometheus curl:curl; do
    command -v "${pair%%:*}" >/dev/null || missing+=("${pair#*:}")
done
command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null ||
    missing+=(chromium)
[ "$(uname)" != Linux ] || [ ${#missing[@]} -eq 0 ] || debian "${missing[@]}"

"$here/install.sh" || true
"$here/../conformance/install.sh" || true
"$here/../page/install.sh" || true
"$here/../permissions/install.sh" || true
