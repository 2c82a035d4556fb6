//! The program of proofs: runs what each promise needs, at the promised size, in slices between which it can be
//! stopped; prints the figures beside the promises and adds a line to `docs/proofs.md`.

pub mod page;
pub mod progress;
pub mod rows;
pub mod slice;
