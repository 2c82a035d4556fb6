#!/usr/bin/env bash
# usage: deploy/rpm/build.sh BIN_DIR OUT_DIR
#
# Makes an RPM package of the programs in BIN_DIR, with user units, man pages and completions, and prints its path. The same
# input gives the same bytes. Needs rpmbuild. The architecture is this machine's, or ARCH (x86_64, aarch64). CTL and NOTICES
# as for deploy/package-tree.
set -euo pipefail
# shellcheck source=../tools.sh
. "$(dirname "${BASH_SOURCE[0]}")/../tools.sh"

[ $# -eq 2 ] || { echo "usage: build.sh BIN_DIR OUT_DIR, with ${programs[*]} in BIN_DIR" >&2; exit 2; }
bin=$(cd "$1" && pwd)
mkdir -p "$2"
out=$(cd "$2" && pwd)
export LC_ALL=C TZ=UTC
SOURCE_DATE_EPOCH=$(epoch)
export SOURCE_DATE_EPOCH
version=$("${CTL:-$bin/switchboard-ctl}" --version | cut -d' ' -f2)
arch=${ARCH:-$(uname -m)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
CTL=${CTL:-$bin/switchboard-ctl} "$root/deploy/package-tree" "$bin" "$work/tree"
install -D -m 644 "$root/LICENSE" "$work/tree/usr/share/licenses/switchboard-mcp/LICENSE"
find "$work/tree" -exec touch --no-dereference --date "@$SOURCE_DATE_EPOCH" {} +

# A hyphen separates version and release there.
{
    cat <<SPEC
Name: switchboard-mcp
Version: ${version//-/\~}
Release: 1
Summary: Run your MCP servers once and share them between all your editors
License: MIT
URL: https://github.com/switchboard-mcp/switchboard
AutoReqProv: no
SPEC
    # What the binaries need of the C library; static ones need nothing.
    glibc=$(grep -aoh 'GLIBC_2\.[0-9]*' "${programs[@]/#/$bin/}" | sort -uV | tail -1 || true)
    [ -z "$glibc" ] || echo "Requires: libc.so.6($glibc)(64bit), libgcc_s.so.1()(64bit)"
    cat <<'SPEC'
%description
Switchboard runs the MCP servers of a person once for all their editors and
shows each of them to a model as one tool. The daemon is started by the first
editor that needs it; `switchboard service install` has the systemd of the
user keep it instead.

%install
cp -a %{tree}/. %{buildroot}/

%files
%license /usr/share/licenses/switchboard-mcp/LICENSE
%doc /usr/share/doc/switchboard-mcp
%attr(0755,root,root) /usr/bin/*
/usr/lib/systemd/user/*
/usr/share/man/man1/*
/usr/share/bash-completion/completions/switchboard
/usr/share/fish/vendor_completions.d/switchboard.fish
/usr/share/zsh/site-functions/_switchboard
/usr/share/switchboard-mcp
SPEC
} >"$work/switchboard-mcp.spec"
rpmbuild -bb --quiet --target "$arch-linux" \
    --define "_topdir $work/top" --define "_rpmdir $work/out" --define "tree $work/tree" \
    --define '_build_id_links none' --define '__os_install_post %{nil}' --define 'debug_package %{nil}' \
    --define '_buildhost reproducible' --define 'use_source_date_epoch_as_buildtime 1' --define 'clamp_mtime_to_source_date_epoch 1' \
    --define 'source_date_epoch_from_changelog 0' --define '_binary_payload w9.xzdio' \
    "$work/switchboard-mcp.spec" >&2
package=$(echo "$work/out"/*/*.rpm)
mv "$package" "$out/"
echo "$out/$(basename "$package")"
