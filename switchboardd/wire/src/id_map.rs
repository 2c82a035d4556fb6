//! A map by numbers that we count up ourselves. Nobody outside chooses them, so that they need no keyed hash.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

pub type IdMap<V> = HashMap<u64, V, BuildHasherDefault<IdHasher>>;

#[derive(Debug, Default, Clone, Copy)]
pub struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        // The map looks at the highest and the lowest bits: an odd factor spreads consecutive numbers over both.
        self.0 = (self.0 ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn consecutive_numbers_do_not_collide() {
        let hash = |number: u64| {
            let mut hasher = IdHasher::default();
            hasher.write_u64(number);
            hasher.finish()
        };
        let low: HashSet<u64> = (0..1024).map(|number| hash(number) % 1024).collect();
        let high: HashSet<u64> = (0..1024).map(|number| hash(number) >> 57).collect();
        assert_eq!((low.len(), high.len()), (1024, 128));
        let mut map = IdMap::default();
        map.extend((0..1000).map(|number| (number, number)));
        assert!((0..1000).all(|number| map.remove(&number) == Some(number)));
    }
}
