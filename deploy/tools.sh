# shellcheck shell=bash disable=SC2034
# For the scripts of this folder; sourced. What they need beyond Rust, by name and version, and what all of them share.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
target_dir=${CARGO_TARGET_DIR:-$root/target}

# What the tools of all clones of a user share.
ci_cache=${SWITCHBOARD_CI_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/switchboard-ci}

programs=(switchboard switchboardd switchboard-ctl switchboard-guard)
linux_targets=(x86_64-unknown-linux-musl aarch64-unknown-linux-musl x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu)
# The oldest C library that the glibc builds run on: that of the Enterprise Linux 8 family and of Debian 10.
glibc=2.28
# The oldest macOS that programs are built for; compilers and linkers read the variable.
export MACOSX_DEPLOYMENT_TARGET=12.0

ziglang=ziglang==0.17.0
cargo_zigbuild=cargo-zigbuild==0.24.0
cargo_about="cargo-about@0.9.3"
cargo_cyclonedx="cargo-cyclonedx@0.5.9"
cargo_deny="cargo-deny@0.20.2"

die() {
    echo "${0##*/}: $*" >&2
    exit 1
}

# For what a registry gives: a refusal may be a passing one.
retried() {
    "$@" || { sleep 5 && "$@"; } || { sleep 20 && "$@"; }
}

# The one place of the version.
version() {
    sed -n '/^\[workspace\.package\]/,/^\[/ s/^version = "\(.*\)"/\1/p' "$root/Cargo.toml"
}

# The time that goes into archives: the last commit's, so that the same commit gives the same bytes.
epoch() {
    echo "${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct 2>/dev/null || stat -c %Y "$root/CHANGELOG.md")}"
}

sha256() {
    if command -v sha256sum >/dev/null; then sha256sum "$@"; else shasum -a 256 "$@"; fi
}

# python_tool PROGRAM PACKAGE…: makes PROGRAM from PyPI callable, in a folder of the build.
python_tool() {
    local program=$1
    shift
    # A folder for each list of versions: a raised version is installed, and no other one on the PATH is taken.
    local folder
    folder=$target_dir/tools/python-$(cksum <<<"$*" | cut -d' ' -f1)
    export PATH="$folder/bin:$PATH"
    [ ! -e "$folder/complete" ] || return 0
    rm -rf "$folder"
    python3 -m venv "$folder"
    retried "$folder/bin/pip" install --quiet "$@" || die "PyPI did not give $*"
    [ -x "$folder/bin/$program" ] || die "$* has no $program"
    touch "$folder/complete"
}

# cargo_tool PROGRAM NAME@VERSION [OPTION]…: makes a cargo command from the registry callable, built once for all clones of
# a user. None runs for long, so that they are built quickly.
cargo_tool() {
    local program=$1 folder=$ci_cache/tools/$2
    shift
    export PATH="$folder/bin:$PATH"
    [ ! -x "$folder/bin/$program" ] || return 0
    CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_DEBUG=false \
        cargo install --quiet --locked --root "$folder" --target-dir "$ci_cache/tools/target" "$@" || die "the registry did not give $1, or it does not compile"
}
