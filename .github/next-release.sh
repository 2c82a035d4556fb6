#!/usr/bin/env bash
# Makes the working tree that of the next release and prints its tag: the number that the Conventional Commits since
# the last tag ask for, in Cargo.toml and Cargo.lock, and the changelog's `Unreleased` under that number.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tag=$(git-cliff --config .github/cliff.toml --bumped-version)
if git rev-parse --quiet --verify "refs/tags/$tag" >/dev/null; then
    echo "nothing to release: no commit since $tag changes what a person sees" >&2
    exit 1
fi
version=${tag#v}
if ! grep -q '^## \[Unreleased\]$' CHANGELOG.md; then
    echo "CHANGELOG.md has no \`## [Unreleased]\`: what would $tag say?" >&2
    exit 1
fi

# The workspace's number, and the same number where one of its crates asks for another.
sed -i.old -E \
    -e "/^\[workspace\.package\]/,/^\[/ s/^version = \".*\"/version = \"$version\"/" \
    -e "s/^(switchboard[a-z-]* = \{ path = .*version = )\"[^\"]*\"/\1\"$version\"/" Cargo.toml
sed -i.old -e "s/^## \[Unreleased\]$/&\n\n## [$version] - $(date -u +%Y-%m-%d)/" CHANGELOG.md
rm Cargo.toml.old CHANGELOG.md.old
cargo update --workspace --quiet

echo "$tag"
