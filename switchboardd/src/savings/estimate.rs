//! About how many tokens a text has, for decisions that cannot wait for a tokenizer. Pure.
//!
//! `ctl/src/tokens.rs` compares it with the tokenizer, over the lists of 16 real servers.

/// How many bytes a hundred tokens of definitions have.
const BYTES_OF_100_TOKENS: usize = 445;

/// The tokens of so many bytes of definitions: JSON in English with schemas.
pub fn estimated_tokens(bytes: usize) -> usize {
    bytes.saturating_mul(100).div_ceil(BYTES_OF_100_TOKENS)
}
