//! Random bytes and tokens from the kernel, and constant-time comparison.

/// `N` random bytes from the kernel.
pub fn bytes<const N: usize>() -> [u8; N] {
    let mut random = [0_u8; N];
    fill(&mut random);
    random
}

/// `bytes` random bytes (at most 32) from the kernel, in hexadecimal.
pub fn hex(bytes: usize) -> String {
    let mut random = [0_u8; 32];
    let random = &mut random[..bytes];
    fill(random);
    crate::hex::hex(random)
}

#[cfg(target_os = "linux")]
fn fill(random: &mut [u8]) {
    rustix::rand::getrandom(random, rustix::rand::GetRandomFlags::empty())
        .expect("BUG: the kernel always has random bytes once it runs");
}

#[cfg(not(target_os = "linux"))]
fn fill(random: &mut [u8]) {
    getrandom::fill(random).expect("BUG: the kernel always has random bytes once it runs");
}
