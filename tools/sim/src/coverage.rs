//! How often each rare path was taken. A path that no run takes is a path that nothing tests, so a set of runs in which
//! a listed one was never taken has failed.

use std::collections::BTreeMap;
use std::fmt;

/// Counts by the name of the path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    counts: BTreeMap<&'static str, u64>,
}

impl Coverage {
    /// Nothing was taken.
    #[must_use]
    pub fn new() -> Coverage {
        Coverage::default()
    }

    /// So many times more.
    pub fn add(&mut self, path: &'static str, times: u64) {
        *self.counts.entry(path).or_default() += times;
    }

    /// Once more.
    pub fn hit(&mut self, path: &'static str) {
        self.add(path, 1);
    }

    /// How often.
    #[must_use]
    pub fn count(&self, path: &str) -> u64 {
        self.counts.get(path).copied().unwrap_or(0)
    }

    /// Another run's counts on top.
    pub fn merge(&mut self, other: &Coverage) {
        other.counts.iter().for_each(|(path, times)| self.add(path, *times));
    }

    /// The paths and their counts, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.counts.iter().map(|(path, times)| (*path, *times))
    }

    /// Those of `required` that were never taken.
    #[must_use]
    pub fn missing<'a>(&self, required: &[&'a str]) -> Vec<&'a str> {
        required.iter().copied().filter(|path| self.count(path) == 0).collect()
    }
}

impl fmt::Display for Coverage {
    /// Two columns of paths: as short as a table of a hundred lines can be.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows: Vec<String> = self
            .iter()
            .map(|(path, times)| format!("{path:<38}{times:>11}"))
            .collect();
        let half = rows.len().div_ceil(2);
        for row in 0..half {
            let right = rows.get(half + row).map_or("", String::as_str);
            writeln!(f, "  {:<49}   {right}", rows[row])?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
