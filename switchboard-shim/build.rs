//! Has the linker put the functions that run in every session side by side: see `proto-tests/hot-functions.sh`.
//! `SWITCHBOARD_LAYOUT=off` switches it off, and so does a linker that was chosen by hand: not all read such scripts.

fn main() {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    println!("cargo::rerun-if-changed=hot-functions.ld");
    println!("cargo::rerun-if-env-changed=SWITCHBOARD_LAYOUT");
    let is_usual_linker = variable("RUSTC_LINKER").is_empty()
        && !["fuse-ld", "linker"].iter().any(|word| variable("CARGO_ENCODED_RUSTFLAGS").contains(word));
    let is_release_for_linux = variable("PROFILE") == "release" && variable("CARGO_CFG_TARGET_OS") == "linux";
    if is_release_for_linux && is_usual_linker && variable("SWITCHBOARD_LAYOUT") != "off" {
        println!("cargo::rustc-link-arg-bins=-T{}/hot-functions.ld", variable("CARGO_MANIFEST_DIR"));
    }
}
