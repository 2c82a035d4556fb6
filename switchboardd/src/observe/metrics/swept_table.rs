//! A table of shared values that forgets those which nobody else holds. It looks for them only when the table has
//! doubled since, so that many lookups in a row do not search all of it each time.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use super::names::MAX_NAMES;

#[derive(Debug)]
pub(super) struct SweptTable<K, V> {
    values: HashMap<K, Arc<V>>,
    /// At this size, values that nobody else holds are removed.
    sweep_at: usize,
}

impl<K, V> Default for SweptTable<K, V> {
    fn default() -> Self {
        Self { values: HashMap::new(), sweep_at: MAX_NAMES }
    }
}

impl<K: Eq + Hash, V> SweptTable<K, V> {
    /// The value of this key, which is made if there is none.
    pub(super) fn get(&mut self, key: K, make: impl FnOnce() -> Arc<V>) -> Arc<V> {
        if self.values.len() >= self.sweep_at {
            self.values.retain(|_, value| Arc::strong_count(value) > 1);
            self.sweep_at = MAX_NAMES.max(2 * self.values.len());
        }
        self.values.entry(key).or_insert_with(make).clone()
    }

    pub(super) fn all(&self) -> Vec<Arc<V>> {
        self.values.values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_nobody_holds_are_forgotten_when_the_table_is_large() {
        let mut table = SweptTable::default();
        let held: Vec<_> = (0..MAX_NAMES).map(|key| table.get(key, || Arc::new(key))).collect();
        for key in MAX_NAMES..10 * MAX_NAMES {
            table.get(key, || Arc::new(key));
            assert!(table.values.len() <= 2 * MAX_NAMES);
        }
        for (key, value) in held.iter().enumerate() {
            assert!(Arc::ptr_eq(value, &table.get(key, || Arc::new(usize::MAX))));
        }
    }
}
