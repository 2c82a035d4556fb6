//! Has the linker put the functions that run in every session side by side: see `proto-tests/hot-functions.sh`.
//! `SWITCHBOARD_LAYOUT=off` switches it off, and so does a linker that was chosen by hand: not all read such scripts. Those
//! of `deploy/build-targets` do.

use std::path::Path;

fn main() {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    println!("cargo::rerun-if-changed=hot-functions.ld");
    println!("cargo::rerun-if-env-changed=SWITCHBOARD_LAYOUT");
    let linker = variable("RUSTC_LINKER");
    let is_zig =
        Path::new(&linker).file_name().is_some_and(|name| name.to_string_lossy().starts_with("zigcc-"));
    let reads_scripts = (linker.is_empty() || is_zig)
        && !["fuse-ld", "linker"].iter().any(|word| variable("CARGO_ENCODED_RUSTFLAGS").contains(word));
    let is_release_for_linux = variable("PROFILE") == "release" && variable("CARGO_CFG_TARGET_OS") == "linux";
    if is_release_for_linux && reads_scripts && variable("SWITCHBOARD_LAYOUT") != "off" {
        println!("cargo::rustc-link-arg-bins=-T{}/hot-functions.ld", variable("CARGO_MANIFEST_DIR"));
    }
}
