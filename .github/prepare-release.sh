#!/usr/bin/env bash
# Decides what is released, and prints `tag=` and `commit=`. On a tag: that commit, if its version is the tag's. On main: a
# commit with the next number, on a branch of its own, so that every target is built from it before main has it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ "${GITHUB_REF_TYPE:-}" = tag ]; then
    tag=$GITHUB_REF_NAME
    version=$(sed -n '/^\[workspace\.package\]/,/^\[/ s/^version = "\(.*\)"/\1/p' Cargo.toml)
    if [ "$tag" != "v$version" ]; then
        echo "the tag is $tag, and Cargo.toml says $version" >&2
        exit 1
    fi
else
    tag=$(bash .github/next-release.sh)
    git config user.name "github-actions[bot]"
    git config user.email "41898282+github-actions[bot]@users.noreply.github.com"
    git commit --quiet --all --message "chore: release $tag"
    git push --quiet --force origin "HEAD:refs/heads/release/$tag"
fi
echo "tag=$tag"
echo "commit=$(git rev-parse HEAD)"
