#!/usr/bin/env bash
# usage: notes.sh TAG OUT
#
# Writes what the Conventional Commits of release TAG say, the commit that is checked out: everything since the tag before
# it. TAG need not exist yet; git-cliff leaves out what has a tag unless it is asked for the latest one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
which=--unreleased
if git rev-parse --quiet --verify "refs/tags/$1" >/dev/null; then which=--latest; fi
git-cliff --config .github/cliff.toml "$which" --tag "$1" --strip all --output "$2"
