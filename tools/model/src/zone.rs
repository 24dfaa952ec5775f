//! Time that is not counted in ticks: which readings of some clocks are possible together, as a zone (a difference-bound matrix,
//! the usual symbolic state of a timed automaton).
//!
//! Clocks show the *real* time since they were last reset, and run on by themselves between any two steps. A rule that compares a
//! reading of somebody's own clock becomes a bound on real time, by how far that clock may be off ([`Drift`]): so every drift
//! within the bound is tried at once, also one that changes, and every moment, not only whole ticks.

use std::fmt;

/// A bound on a difference: twice the number, plus one where the number itself is allowed.
type Bound = i32;

const NONE: Bound = i32::MAX;
/// A difference of nothing: `<= 0`.
const ZERO: Bound = 1;

const fn at_most(units: i32) -> Bound {
    units * 2 + 1
}

const fn below(units: i32) -> Bound {
    units * 2
}

const fn sum(a: Bound, b: Bound) -> Bound {
    if a == NONE || b == NONE {
        return NONE;
    }
    (((a >> 1) + (b >> 1)) << 1) | (a & b & 1)
}

/// The readings of `N - 1` clocks that are possible. Number 0 stands for zero; clocks are numbered from 1.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Zone<const N: usize> {
    /// `[i][j]`: the bound on clock i less clock j. Always as tight as the others make it.
    bounds: [[Bound; N]; N],
}

impl<const N: usize> fmt::Debug for Zone<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for clock in 1..N {
            let (least, most) = (-(self.bounds[0][clock] >> 1), self.bounds[clock][0]);
            match most {
                NONE => write!(f, "{clock}: {least}.. ")?,
                most => write!(f, "{clock}: {least}..{} ", most >> 1)?,
            }
        }
        Ok(())
    }
}

impl<const N: usize> Default for Zone<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> Zone<N> {
    /// All clocks show zero.
    #[must_use]
    pub fn new() -> Self {
        Self { bounds: [[ZERO; N]; N] }
    }

    /// Any time goes by.
    pub fn pass(&mut self) {
        for clock in 1..N {
            self.bounds[clock][0] = NONE;
        }
    }

    /// A clock begins anew.
    pub fn reset(&mut self, clock: usize) {
        for other in 0..N {
            self.bounds[clock][other] = self.bounds[0][other];
            self.bounds[other][clock] = self.bounds[other][0];
        }
        self.bounds[clock][clock] = ZERO;
    }

    /// A clock shows what another one shows.
    pub fn copy(&mut self, to: usize, from: usize) {
        if to == from {
            return;
        }
        for other in 0..N {
            self.bounds[to][other] = self.bounds[from][other];
            self.bounds[other][to] = self.bounds[other][from];
        }
        (self.bounds[to][to], self.bounds[to][from], self.bounds[from][to]) = (ZERO, ZERO, ZERO);
    }

    /// Nothing asks for a clock before its next reset: what it shows is forgotten, so that more states are equal.
    pub fn forget(&mut self, clock: usize) {
        self.reset(clock);
        for other in 0..N {
            if other != clock {
                self.bounds[clock][other] = NONE;
                self.bounds[other][clock] = self.bounds[other][0];
            }
        }
    }

    fn narrow(mut self, i: usize, j: usize, bound: Bound) -> Option<Self> {
        if sum(self.bounds[j][i], bound) < ZERO {
            return None;
        }
        if bound < self.bounds[i][j] {
            self.bounds[i][j] = bound;
            for a in 0..N {
                for b in 0..N {
                    let by = sum(sum(self.bounds[a][i], bound), self.bounds[j][b]);
                    self.bounds[a][b] = self.bounds[a][b].min(by);
                }
            }
        }
        Some(self)
    }

    /// The readings among these with a clock at this many units or fewer; `None`: there are none.
    #[must_use]
    pub fn at_most(self, clock: usize, units: i32) -> Option<Self> {
        self.narrow(clock, 0, at_most(units))
    }

    /// The readings among these with a clock at this many units or more; `None`: there are none.
    #[must_use]
    pub fn at_least(self, clock: usize, units: i32) -> Option<Self> {
        self.narrow(0, clock, at_most(-units))
    }

    /// The readings among these with a clock below so many units; `None`: there are none.
    #[must_use]
    pub fn below(self, clock: usize, units: i32) -> Option<Self> {
        self.narrow(clock, 0, below(units))
    }

    /// The readings among these with a clock above so many units; `None`: there are none.
    #[must_use]
    pub fn above(self, clock: usize, units: i32) -> Option<Self> {
        self.narrow(0, clock, below(-units))
    }

    /// Forgets differences beyond the largest number that any rule compares with: no step can tell them, and what is left is
    /// finite.
    pub fn limit(&mut self, largest: i32) {
        let mut changed = false;
        for i in 0..N {
            for j in 0..N {
                let bound = self.bounds[i][j];
                if i == j || bound == NONE {
                    continue;
                }
                if bound > at_most(largest) {
                    self.bounds[i][j] = NONE;
                    changed = true;
                } else if bound < below(-largest) {
                    self.bounds[i][j] = below(-largest);
                    changed = true;
                }
            }
        }
        if changed {
            self.tighten();
        }
    }

    fn tighten(&mut self) {
        for via in 0..N {
            for i in 0..N {
                for j in 0..N {
                    let by = sum(self.bounds[i][via], self.bounds[via][j]);
                    self.bounds[i][j] = self.bounds[i][j].min(by);
                }
            }
        }
    }
}

/// How far a clock may run off, either way, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drift(pub i32);

impl Drift {
    /// The most real time that may have gone by when such a clock shows this.
    #[must_use]
    pub fn longest(self, shown: i32) -> i32 {
        scaled(shown, 1000, 1000 - self.0)
    }

    /// The least real time that must have gone by when such a clock shows this.
    #[must_use]
    pub fn shortest(self, shown: i32) -> i32 {
        scaled(shown, 1000, 1000 + self.0)
    }
}

fn scaled(number: i32, by: i32, of: i32) -> i32 {
    (i64::from(number) * i64::from(by) / i64::from(of)) as i32
}

#[cfg(test)]
mod tests;
