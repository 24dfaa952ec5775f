//! The disk moves to another pool while its host verifies it by several paths, and nodes are killed.

use super::paths::Rounds;
use crate::host::Host;
use crate::target::Target;
use amita_harness::moves::Moment;
use amita_terminal::error::{Failure, Result};

/// Moves until a node was killed at a moment of one: a hold lasts for milliseconds.
const TRIES: usize = 16;

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

    /// At that moment of it, kills a node; which, and who that was, if there is none that it was to be. None: the move had come to its switch before that was done, and all nodes live.
    fn strike(&mut self, moment: Moment, whom: Whom) -> Result<Option<(usize, Whom)>>;

    /// Waits until the move is over; the disk is in that pool then.
    fn await_moved(&mut self, to: &str) -> Result<()>;
}

/// Begins moves until a node was killed at that moment of one: to where, which node, and who that was.
fn strike(host: &Host, target: &mut dyn Movable, moment: Moment, whom: Whom) -> Result<(String, usize, Whom)> {
    for _ in 0..TRIES {
        let to = target.begin_move(moment == Moment::Pass)?;
        if let Some((killed, who)) = target.strike(moment, whom)? {
            return Ok((to, killed, who));
        }
        target.await_moved(&to)?;
        let (nqn, count) = (target.nqn(), target.portals().len());
        host.sh(&format!("await_paths {nqn} {count} 180"))?;
    }
    Err(Failure::new(format!(
        "nobody was killed at {moment:?} in {TRIES} moves"
    )))
}

/// So many moves there and back under verification, in each of which a node is killed: no error, no wrong byte, and all paths live again behind each.
pub fn nodes_killed(host: &Host, target: &mut dyn Movable, times: usize) -> Result<String> {
    let (nqn, count) = (target.nqn().to_owned(), target.portals().len());
    host.connect_all(target, "")?;
    let rounds = Rounds::start(host, target)?;
    let (mut seen, mut struck) = (String::new(), Vec::new());
    for time in 0..times {
        let moment = [Moment::Pass, Moment::Switch][time % 2];
        let whom = [Whom::Mover, Whom::Owner, Whom::Another][time / 2 % 3];
        let (to, killed, who) = strike(host, target, moment, whom)?;
        struck.push((moment, who));
        seen += &format!("to {to}: at {moment:?} {who:?}, node {}, killed\n", killed + 1);
        host.sh(&format!("await_paths {nqn} {}", count - 1))?;
        rounds.further(1)?;
        // It comes to its end without it half of the times.
        if time % 4 < 2 {
            target.await_moved(&to)?;
        }
        target.revive(killed)?;
        target.await_moved(&to)?;
        host.sh(&format!("await_paths {nqn} {count} 180; no_errors"))?;
        rounds.further(1)?;
    }
    let has = |moment: Moment| struck.iter().any(|(at, _)| *at == moment);
    let is = |whom: Whom| struck.iter().any(|(_, who)| *who == whom);
    let all = has(Moment::Pass) && has(Moment::Switch) && is(Whom::Mover) && is(Whom::Owner);
    // The first four are at both moments whoever carries the move out, and who has the volume.
    if times >= 4 && !all {
        return Err(Failure::new(format!(
            "not both were killed, or not at both moments: {struck:?}"
        )));
    }
    seen += &rounds.stop()?;
    seen += &host.sh(&format!("no_errors; echo; ana {nqn}"))?;
    host.disconnect(target)?;
    Ok(seen)
}
