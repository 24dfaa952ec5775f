//! The disk moves to another pool while its host verifies it by several paths, and nodes are killed.

use super::paths::Rounds;
use crate::host::Host;
use crate::target::Target;
use amita_harness::moves::Moment;
use amita_terminal::error::Result;

/// Whom to kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whom {
    /// Who carries the move out.
    Mover,
    /// Who has the volume: its path is the optimized one.
    Owner,
    /// A node that is neither, if there is one.
    Another,
}

/// A target whose disk can be moved to another pool.
pub trait Movable: Target {
    /// Begins a move to the pool where it is not; `slowly`: so that a pass takes its time.
    fn begin_move(&mut self, slowly: bool) -> Result<String>;

    /// At that moment of it, kills a node; which.
    fn strike(&mut self, moment: Moment, whom: Whom) -> Result<usize>;

    /// Waits until the disk has moved.
    fn await_moved(&mut self) -> Result<()>;
}

/// So many moves there and back under verification, in each of which a node is killed: no error, no wrong byte, and all paths live again behind each.
pub fn nodes_killed(host: &Host, target: &mut dyn Movable, times: usize) -> Result<String> {
    let (nqn, count) = (target.nqn().to_owned(), target.portals().len());
    host.connect_all(target, "")?;
    let rounds = Rounds::start(host, target)?;
    let mut seen = String::new();
    for time in 0..times {
        let moment = [Moment::Pass, Moment::Switch][time % 2];
        let whom = [Whom::Mover, Whom::Owner, Whom::Another][time / 2 % 3];
        let to = target.begin_move(moment == Moment::Pass)?;
        let killed = target.strike(moment, whom)?;
        seen += &format!("to {to}: at {moment:?} {whom:?}, node {}, killed\n", killed + 1);
        host.sh(&format!("await_paths {nqn} {}", count - 1))?;
        rounds.further(1)?;
        // It comes to its end without it half of the times.
        if time % 4 < 2 {
            target.await_moved()?;
        }
        target.revive(killed)?;
        target.await_moved()?;
        host.sh(&format!("await_paths {nqn} {count} 180; no_errors"))?;
        rounds.further(1)?;
    }
    seen += &rounds.stop()?;
    seen += &host.sh(&format!("no_errors; echo; ana {nqn}"))?;
    host.disconnect(target)?;
    Ok(seen)
}
