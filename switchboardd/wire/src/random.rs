//! Random bytes and tokens from the kernel, and constant-time comparison.

/// `N` random bytes from the kernel.
pub fn bytes<const N: usize>() -> [u8; N] {
    let mut random = [0_u8; N];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
        .expect("BUG: the kernel always has random bytes once it runs");
    random
}

/// `bytes` random bytes (at most 32) from the kernel, in hexadecimal.
pub fn hex(bytes: usize) -> String {
    let mut random = [0_u8; 32];
    let random = &mut random[..bytes];
    rustix::rand::getrandom(&mut *random, rustix::rand::GetRandomFlags::empty())
        .expect("BUG: the kernel always has random bytes once it runs");
    crate::hex::hex(random)
}
