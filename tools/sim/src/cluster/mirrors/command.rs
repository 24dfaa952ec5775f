//! What operators do of mirrors: the steps of `amita mirror demote`, `promote`, `resync` and so on, by the same functions of `amita_control::admin`,
//! from a node that has its trouble with the metadata as all others.

use super::Wall;
use super::wire::{FarAnswer, FarAsk, FarWhy};
use crate::cluster::moves::line::{Ask, Line};
use amita_control::admin;
use amita_types::map::{MirrorRole, Paused, Standing};
use std::time::Duration;

/// How often something is tried, and the pause before it is again.
const TRIES: u32 = 60;
const PAUSE: Duration = Duration::from_millis(120);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Demote,
    /// In order.
    Promote,
    Force,
    TakeBack,
    Resync,
    Pause,
    Resume,
}

/// Carries it out, or gives it up.
pub(super) fn run(line: &Line, name: &str, wall: &Wall, command: Command) {
    let done = match command {
        Command::Demote => tried(line, &|| {
            admin::demote_mirror(line, name).map_err(|why| why.to_string())?;
            admin::close_mirrored(line, name)
                .map_err(|why| why.to_string())
                .map(drop)
        }),
        Command::Promote => tried(line, &|| {
            admin::promote_mirror(line, name)
                .map_err(|why| why.to_string())
                .map(drop)
        }),
        Command::Force => force(line, name),
        Command::TakeBack => take_back(line, name),
        Command::Resync => tried(line, &|| {
            admin::begin_return(line, name).map_err(|why| why.to_string()).map(drop)
        }),
        Command::Pause => {
            let paused = Paused {
                by: "operator".to_owned(),
                at: wall.at(line).as_secs(),
            };
            admin::pause_mirror(line, name, Some(&paused))
                .map(drop)
                .map_err(|why| why.to_string())
        }
        Command::Resume => tried(line, &|| {
            admin::pause_mirror(line, name, None)
                .map_err(|why| why.to_string())
                .map(drop)
        }),
    };
    line.say(Ask::Hit(match (command, done.is_ok()) {
        (Command::Demote, true) => "mirror.operator_demoted",
        (Command::Promote, true) => "mirror.operator_promoted",
        (Command::Force, true) => "mirror.operator_forced",
        (Command::TakeBack, true) => "mirror.operator_took_back",
        (Command::Resync, true) => "mirror.operator_resynced",
        (Command::Pause, true) => "mirror.operator_paused",
        (Command::Resume, true) => "mirror.operator_resumed",
        (_, false) => "mirror.operator_refused",
    }));
    line.say(Ask::Ended(done.err()));
}

fn tried(line: &Line, what: &dyn Fn() -> Result<(), String>) -> Result<(), String> {
    let mut last = Ok(());
    for _ in 0..TRIES {
        last = what();
        if last.is_ok() || line.is_cut() {
            break;
        }
        line.rest(PAUSE);
    }
    last
}

/// The other end is asked first: one that answers, and may be written, is to be demoted instead.
fn force(line: &Line, name: &str) -> Result<(), String> {
    let found = admin::mirror(line, name).map_err(|why| why.to_string())?;
    let is_secondary = found.standing.role == MirrorRole::Secondary;
    if let Ok(FarAnswer::Link(other)) = line.far(FarAsk::Look)
        && is_secondary
        && matches!(other.standing.role, MirrorRole::Primary | MirrorRole::Promoting)
    {
        line.say(Ask::Hit("mirror.force_refused"));
        return Err(format!("the other end answers, and is {}", other.standing.role));
    }
    admin::force_mirror(line, name).map(drop).map_err(|why| why.to_string())
}

/// The other end declines the demotion, and then it is taken back (T8).
fn take_back(line: &Line, name: &str) -> Result<(), String> {
    let found = admin::mirror(line, name).map_err(|why| why.to_string())?;
    let (epoch, own) = (found.standing.epoch, found.standing);
    if !own.handed {
        return Err("it is not demoted".to_owned());
    }
    let is_over = |standing: &Standing| standing.epoch > epoch;
    let mut is_declined = false;
    for _ in 0..TRIES {
        let other = match line.far(FarAsk::Look) {
            Ok(FarAnswer::Link(other)) => other.standing,
            Ok(_) => return Err("it answers something else".to_owned()),
            Err(why) => return Err(why.text().to_owned()),
        };
        if is_over(&other) {
            return Err("this end's demotion was used".to_owned());
        }
        is_declined = other.declined >= Some(epoch);
        if is_declined {
            break;
        }
        match line.far(FarAsk::Decline(epoch, own.clone())) {
            Ok(_) => {
                is_declined = true;
                break;
            }
            // It has not seen yet that this end was demoted.
            Err(FarWhy::Conflict(_)) => line.rest(PAUSE),
            Err(why) => return Err(why.text().to_owned()),
        }
    }
    if !is_declined {
        return Err("it does not decline".to_owned());
    }
    tried(line, &|| {
        admin::take_back_mirror(line, name)
            .map_err(|why| why.to_string())
            .map(drop)
    })
}
