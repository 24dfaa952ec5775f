//! What must hold inside stores and sequencers between events, looked at after the passes of every core.
//!
//! What is wrong in memory shows itself to hosts late, if it does: a slot that nobody has is missed when the disk is full, a
//! counter that is one too high when the next owner waits for ever. So a store's sums are looked at after every pass, and in
//! some runs everything is; in the others everything is looked at now and then, because it costs as much as the run itself.
//! What does not hold is a panic, with the calls that led there. (Only builds with the feature `planted` have these checks,
//! which is how the simulator is built for all of its runs.)

use crate::cluster::Cluster;
use crate::coverage::Coverage;
use crate::faults::Member;

/// In one run of so many everything is looked at after every pass.
const WHOLE_RUNS: u64 = 24;
/// As long as it is no longer than so many passes.
const WHOLE_PASSES: u64 = 10_000;
/// In the others after one pass of so many, and after fewer in a long life. Primes, so that no rhythm of a run hides anything.
const SAMPLED: u64 = 17;
const SAMPLED_LATE: u64 = 211;
/// So many passes of a run are its beginning.
const BEGINNING_PASSES: u64 = 50_000;

#[derive(Clone, Copy, Debug)]
pub(in crate::cluster) struct Looks {
    whole: bool,
    passes: u64,
}

impl Looks {
    /// Those of a run.
    pub fn of(seed: u64) -> Looks {
        Looks {
            whole: seed % WHOLE_RUNS == 1,
            passes: 0,
        }
    }

    fn is_due(&mut self) -> bool {
        self.passes += 1;
        let every = match self.passes {
            0..WHOLE_PASSES if self.whole => 1,
            0..BEGINNING_PASSES => SAMPLED,
            _ => SAMPLED_LATE,
        };
        self.passes.is_multiple_of(every)
    }
}

impl Cluster {
    /// A core has ended a pass.
    pub(in crate::cluster) fn look_inside(&mut self, member: Member, core: usize) {
        let is_due = self.looks.is_due();
        if let Some(core) = self.nodes[member].each_core().nth(core) {
            look(core, is_due, &mut self.coverage);
        }
    }
}

#[cfg(feature = "planted")]
fn look(core: &amita_node::Core, everything: bool, coverage: &mut Coverage) {
    for store in core.stores().each() {
        if everything {
            store.check();
            coverage.hit("check.store");
        } else {
            store.check_sums();
            coverage.hit("check.store_sums");
        }
    }
    for (_, sequencer) in core.shards().each().filter(|_| everything) {
        sequencer.check();
        coverage.hit("check.sequencer");
    }
}

#[cfg(not(feature = "planted"))]
fn look(_: &amita_node::Core, _: bool, _: &mut Coverage) {}
