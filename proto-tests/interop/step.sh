# shellcheck shell=bash disable=SC2154
# For the steps of `cargo verify` that need more than Rust; sourced. `me` is the step's name.

fail() {
    echo "$me: FAILED: $*" >&2
    exit 1
}

# What cannot be had here is said, and is no failure; in CI it is.
skip() {
    echo "skipped: $*" >&2
    case "${CI:-}" in
    "" | false | 0) exit 0 ;;
    *) fail "may not be skipped in CI" ;;
    esac
}

# Debian packages, where we are root. Nothing of them is started.
debian() {
    [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null || return 0
    echo "$me: installing $*" >&2
    { apt-get update -qq && RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"; } \
        >/dev/null || echo "$me: apt-get failed" >&2
}
