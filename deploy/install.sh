#!/bin/sh
# Installs Switchboard for the user who runs it; root is not needed.
#
#   curl -fsSL https://github.com/switchboard-mcp/switchboard/releases/latest/download/install.sh | sh
#
# It fetches the archive for this system from the newest release, compares its SHA-256 with the release's list, and puts
# the four programs into ~/.local/bin, man pages and completions below ~/.local/share. Nothing else is changed.
#
# SWITCHBOARD_VERSION      another release than the newest, e.g. 0.1.0
# SWITCHBOARD_INSTALL_DIR  another folder for the programs
# SWITCHBOARD_RELEASES     another place of the releases (a mirror), as a URL that ends in /releases
set -eu

# In a function, so that a download that breaks off runs nothing.
main() {
    releases=${SWITCHBOARD_RELEASES:-https://github.com/switchboard-mcp/switchboard/releases}
    into=${SWITCHBOARD_INSTALL_DIR:-$HOME/.local/bin}
    share=${XDG_DATA_HOME:-$HOME/.local/share}
    if [ -n "${SWITCHBOARD_VERSION:-}" ]; then
        from=$releases/download/v${SWITCHBOARD_VERSION#v}
    else
        from=$releases/latest/download
    fi

    case $(uname -s) in
    Linux) system=unknown-linux-musl ;;
    Darwin) system=apple-darwin ;;
    MINGW* | MSYS* | CYGWIN* | Windows*) fail "native Windows is not supported; run this inside WSL, where Switchboard works as on Linux" ;;
    *) fail "there is no archive for $(uname -s); \`cargo install\` builds it from source" ;;
    esac
    case $(uname -m) in
    x86_64 | amd64) machine=x86_64 ;;
    aarch64 | arm64) machine=aarch64 ;;
    *) fail "there is no archive for $(uname -m); \`cargo install\` builds it from source" ;;
    esac
    # A shell that is translated by Rosetta says x86_64.
    if [ "$system$machine" = apple-darwinx86_64 ] && [ "$(sysctl -n sysctl.proc_translated 2>/dev/null || echo 0)" = 1 ]; then
        machine=aarch64
    fi

    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    trap 'exit 1' HUP INT TERM
    fetch "$from/SHA256SUMS" "$work/SHA256SUMS" || fail "there is no release at $from"
    line=$(grep -E "^[0-9a-f]{64} [ *]switchboard-v[0-9A-Za-z.+-]*-$machine-$system\.tar\.gz\$" "$work/SHA256SUMS") ||
        fail "the release has no archive for $machine-$system"
    [ "$(printf '%s\n' "$line" | wc -l)" -eq 1 ] || fail "the release has several archives for $machine-$system"
    archive=${line#*[ *]}
    archive=${archive#[ *]}
    fetch "$from/$archive" "$work/$archive" || fail "$from/$archive could not be fetched"
    if [ "$(sum "$work/$archive")" != "${line%% *}" ]; then
        fail "$archive is not what the release lists: its SHA-256 is $(sum "$work/$archive"), not ${line%% *}. Nothing was installed"
    fi
    tar -xzf "$work/$archive" -C "$work"
    unpacked=$work/${archive%.tar.gz}
    "$unpacked/switchboard" --version >/dev/null || fail "the program of $archive does not run here. Nothing was installed"

    mkdir -p "$into"
    # Replaced by renaming, for programs that run; the daemon last, because a running one takes over when its own is replaced.
    for program in switchboard-guard switchboard-ctl switchboard switchboardd; do
        cp "$unpacked/$program" "$into/.$program.$$"
        chmod 755 "$into/.$program.$$"
        mv -f "$into/.$program.$$" "$into/$program"
    done
    put "$share/man/man1" "$unpacked"/man/*.1
    put_as "$share/bash-completion/completions/switchboard" "$unpacked/completions/switchboard.bash"
    put_as "$share/zsh/site-functions/_switchboard" "$unpacked/completions/switchboard.zsh"
    put_as "$share/fish/vendor_completions.d/switchboard.fish" "$unpacked/completions/switchboard.fish"

    echo "$("$into/switchboard" --version) is installed in $into"
    case :$PATH: in
    *:"$into":*) echo "next: switchboard setup" ;;
    *) echo "it is not on your PATH; next: $into/switchboard setup" ;;
    esac
}

fail() {
    echo "install.sh: $*" >&2
    exit 1
}
fetch() {
    if command -v curl >/dev/null; then
        curl -fsSL --retry 3 -o "$2" "$1"
    elif command -v wget >/dev/null; then
        wget -q -O "$2" "$1"
    else
        fail "curl or wget is needed"
    fi
}
sum() {
    if command -v sha256sum >/dev/null; then
        sha256sum "$1" | cut -d' ' -f1
    elif command -v shasum >/dev/null; then
        shasum -a 256 "$1" | cut -d' ' -f1
    else
        fail "sha256sum or shasum is needed, to check what was fetched"
    fi
}
put() {
    to=$1
    shift
    mkdir -p "$to"
    cp "$@" "$to/"
}
put_as() {
    mkdir -p "$(dirname "$1")"
    cp "$2" "$1"
}

main "$@"
