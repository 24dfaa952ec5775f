//! `amita mirror demote`, `promote` and `resync`: which end may be written.

use super::link::Link;
use super::{ails, now, pauses, rest, told, until};
use crate::admin::{Admin, Described as _};
use crate::cli::Endpoints;
use crate::logging::timestamp;
use amita_control::access::Action;
use amita_control::admin;
use amita_control::mirror::{MirrorView, common, lag, view};
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::table::print;
use amita_terminal::{confirm, interrupt, output};
use amita_types::map::{Mirror, MirrorRole, PointName, Seen, Standing};
use serde::Serialize;
use std::path::PathBuf;

/// Who was seen within this is that still, as far as one knows who cannot ask: what is seen is noted every 30 s where nothing changes.
const SEEN_S: u64 = 45;
/// Who was not seen for so long does not answer: `mirror-unheard` says so of it.
const UNHEARD_S: u64 = 120;

/// `amita mirror demote`.
#[derive(Debug, clap::Args)]
pub struct DemoteArguments {
    /// The mirror
    pub name: String,
    /// Also while hosts use its volumes, or may use them by NVMe or iSCSI: they get errors
    #[arg(long)]
    pub force: bool,
    /// Do not wait until the last point is cut
    #[arg(long)]
    pub no_wait: bool,
    /// Say what was done as JSON
    #[arg(long)]
    pub json: bool,
}

/// `amita mirror promote`.
#[derive(Debug, clap::Args)]
pub struct PromoteArguments {
    /// The mirror
    pub name: String,
    /// Whatever the other end is, at the point that this one is at: what the other one has acknowledged since is lost, and it may go on being
    /// written until it hears of this
    #[arg(long)]
    pub force: bool,
    /// With --force: do not ask whether to go on
    #[arg(long)]
    pub yes: bool,
    /// The file with the cluster's sealing key (`amita host seal-key`), by which the token for the other end is kept, to ask that; a node that
    /// carries the command out for you uses its own
    #[arg(long, env = "AMITA_SEAL_KEY", value_name = "FILE")]
    pub seal_key: Option<PathBuf>,
    /// Wait neither for what lacks to be promoted in order, nor for hosts being let in
    #[arg(long)]
    pub no_wait: bool,
    /// Say what was done as JSON
    #[arg(long)]
    pub json: bool,
}

/// `amita mirror resync`.
#[derive(Debug, clap::Args)]
pub struct ResyncArguments {
    /// The mirror
    pub name: String,
    /// Say to which point it would go back, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Do not wait until it follows
    #[arg(long)]
    pub no_wait: bool,
    /// Say what was done as JSON
    #[arg(long)]
    pub json: bool,
}

/// What `resync` says.
#[derive(Serialize)]
struct Resynced {
    /// The newest point that both ends have; null: none, and all is brought.
    common: Option<String>,
    /// When that was cut, in seconds since 1970.
    cut_at: Option<u64>,
    /// Nothing was changed.
    dry_run: bool,
    mirror: MirrorView,
}

fn conflict(why: impl Into<String>) -> Failure {
    Failure::new(why).kind(Kind::Conflict)
}

/// It became what was asked for, or something else has happened meanwhile.
fn wanted(found: &Mirror, is_so: bool, what: &str) -> Result<()> {
    let standing = &found.standing;
    match is_so {
        true => Ok(()),
        false => Err(conflict(format!(
            "mirror {} is {} here now, in epoch {}, and not {what}",
            found.name, standing.role, standing.epoch
        ))
        .advice(format!(
            "Something else has happened meanwhile: see `amita mirror show {}`, and the audit log.",
            found.name
        ))),
    }
}

pub(super) fn demote(arguments: &DemoteArguments, metadata: &Admin) -> Result<()> {
    let name = &arguments.name;
    metadata.permit(Action::MirrorDemote)?;
    let reader = metadata.reader();
    let found = admin::mirror(&reader, name).described()?;
    let is_done = found.standing.role == MirrorRole::Demoting || found.standing.handed;
    if !is_done {
        let demoted = metadata.act(Action::MirrorDemote, name, |meta| {
            match arguments.force {
                true => admin::demote_mirror(meta, name)?,
                false => admin::demote_unused(meta, name, &mut pauses())?,
            };
            // Whoever is at the mirror does the same, where this is cut short.
            admin::close_mirrored(meta, name)
        });
        demoted.described()?;
    }
    let found = match arguments.no_wait {
        true => admin::mirror(&reader, name).described()?,
        false => {
            interrupt::catch();
            until(name, metadata, arguments.json, |found| {
                Ok(match found.standing.role {
                    // The other end was promoted by it already, or more has happened.
                    _ if found.standing.handed => None,
                    MirrorRole::Demoting => Some(format!("the last point is cut.{}", ails(found))),
                    _ => None,
                })
            })?
        }
    };
    if !arguments.no_wait {
        let (role, handed) = (found.standing.role, found.standing.handed);
        // Or it follows the other end already, which was promoted by it.
        wanted(&found, handed || role == MirrorRole::Secondary, "demoted in order")?;
    }
    let standing = &found.standing;
    told(&found, arguments.json, || match (standing.handed, standing.point) {
        (true, Some(point)) => format!(
            "Mirror {name} is demoted here, and hosts are refused. Its last point is {point}: `amita mirror promote` at the other end waits until \
             that has it. `amita mirror promote {name}` here takes it back.\n"
        ),
        _ if standing.role == MirrorRole::Demoting => format!(
            "Mirror {name} is being demoted here, and hosts are refused; `amita mirror show {name}` says when its last point is cut.\n"
        ),
        _ => format!("Mirror {name} is {} here now.\n", standing.role),
    })
}

pub(super) fn promote(arguments: &PromoteArguments, endpoints: &Endpoints, metadata: &Admin) -> Result<()> {
    let name = &arguments.name;
    let reader = metadata.reader();
    let found = admin::mirror(&reader, name).described()?;
    interrupt::catch();
    match found.standing.role {
        // It was begun before.
        MirrorRole::Promoting => {}
        _ if arguments.force => force(arguments, endpoints, metadata, &found)?,
        MirrorRole::Secondary if found.standing.handed => take_back(arguments, endpoints, metadata, &found)?,
        _ => in_order(arguments, metadata, &found)?,
    }
    let found = match arguments.no_wait {
        true => admin::mirror(&reader, name).described()?,
        false => until(name, metadata, arguments.json, |found| {
            Ok(match (found.standing.role, found.begun) {
                (MirrorRole::Promoting, Some(_)) => Some(format!("the volumes go back to the point.{}", ails(found))),
                (MirrorRole::Promoting, None) => Some(format!("hosts are let in.{}", ails(found))),
                _ => None,
            })
        })?,
    };
    if !arguments.no_wait {
        wanted(&found, found.standing.role == MirrorRole::Primary, "the primary")?;
    }
    let standing = &found.standing;
    told(&found, arguments.json, || match standing.role {
        MirrorRole::Primary => format!(
            "Mirror {name} is primary here, in epoch {}: hosts use its volumes.\n",
            standing.epoch
        ),
        MirrorRole::Promoting => {
            format!("Mirror {name} is being promoted here; `amita mirror show {name}` says when hosts are let in.\n")
        }
        other => format!("Mirror {name} is {other} here now.\n"),
    })
}

/// What is waited for before an end is promoted in order.
enum Before {
    /// Nothing: it may be tried.
    Nothing,
    /// This.
    This(String),
}

/// By what this end has seen. `first`: when the other end had been seen when the command began, at which time it may not have been what it is now.
fn before(found: &Mirror, first: Option<u64>) -> Before {
    let name = &found.name;
    let Some(seen) = &found.seen else {
        return Before::This(format!("the other end of mirror {name} is heard.{}", ails(found)));
    };
    let other = &seen.standing;
    if other.role == MirrorRole::Demoting {
        return Before::This("the other end is being demoted: its last point is cut.".to_owned());
    }
    // A demotion that was declined here is what was seen of it before it was taken back (T9).
    let is_declined = found.standing.declined.is_some_and(|declined| declined >= other.epoch);
    let is_handed =
        other.role == MirrorRole::Secondary && other.handed && other.epoch >= found.standing.epoch && !is_declined;
    match other.point.filter(|_| is_handed) {
        Some(last) if found.standing.point != Some(last) => Before::This(format!(
            "point {last}, the other end's last one, is brought.{}",
            ails(found)
        )),
        Some(_) => Before::Nothing,
        None if first == Some(seen.at) => {
            Before::This(format!("the other end of mirror {name} is looked at.{}", ails(found)))
        }
        // It is refused, with the reason.
        None => Before::Nothing,
    }
}

fn in_order(arguments: &PromoteArguments, metadata: &Admin, found: &Mirror) -> Result<()> {
    let name = &arguments.name;
    metadata.permit(Action::MirrorPromote)?;
    let first = found.seen.as_ref().map(|seen| seen.at);
    if found.standing.role == MirrorRole::Secondary && !arguments.no_wait {
        until(name, metadata, arguments.json, |found| {
            if found.standing.role != MirrorRole::Secondary {
                return Ok(None);
            }
            match before(found, first) {
                Before::Nothing => Ok(None),
                Before::This(_) if found.paused.is_some() => Err(conflict(format!(
                    "mirror {name} stands still here, and has not what it is to be promoted at"
                ))
                .advice(format!("`amita mirror resume {name}` lets it go on."))),
                Before::This(what) => Ok(Some(what)),
            }
        })?;
    }
    let promoted = metadata.act(Action::MirrorPromote, name, |meta| admin::promote_mirror(meta, name));
    promoted.described().map(drop).map_err(|failure| match failure.kind {
        Kind::Conflict if failure.advice.is_empty() => failure.advice(
            "Demote the other end (`amita mirror demote`, there). Where it is gone, `--force` promotes this one at the point that it is at.",
        ),
        _ => failure,
    })
}

fn link(found: &Mirror, arguments: &PromoteArguments, endpoints: &Endpoints) -> Result<Link> {
    let key = endpoints.seal_key(arguments.seal_key.as_deref())?;
    Link::of(found, key.as_ref())
}

/// The demotion of this end is declined by the other one, and then taken back (T8).
fn take_back(arguments: &PromoteArguments, endpoints: &Endpoints, metadata: &Admin, found: &Mirror) -> Result<()> {
    let name = &arguments.name;
    metadata.permit(Action::MirrorPromote)?;
    let epoch = found.standing.epoch;
    let forced = |failure: Failure| {
        let what = "Where the other end does not answer there is only force (`--force`), which loses what that acknowledges meanwhile.";
        match failure.kind {
            Kind::Unreachable => failure.advice(what),
            _ => failure,
        }
    };
    let is_over = |standing: &Standing| standing.epoch > epoch;
    let there = link(found, arguments, endpoints)?;
    let mut has_said = arguments.json;
    loop {
        let other = there.look().map_err(forced)?.standing;
        if is_over(&other) {
            return Err(conflict(format!(
                "the other end of mirror {name} is {}, in epoch {}: this end's demotion was used, and it follows",
                other.role, other.epoch
            ))
            .advice("Demote it, there; then promote this end in order."));
        }
        if other.declined >= Some(epoch) {
            break;
        }
        match there.decline(epoch, &found.standing) {
            Ok(_) => break,
            // It has not seen yet that this end was demoted.
            Err(why) if why.kind == Kind::Conflict && !arguments.no_wait => {
                if !has_said {
                    output::beside(&format!("Waiting: the other end declines the demotion ({})", why.what));
                    has_said = true;
                }
            }
            Err(why) => return Err(forced(why)),
        }
        rest(name)?;
    }
    // What it has declined is believed when it was seen by whoever is at the mirror.
    until(name, metadata, arguments.json, |found| {
        if !found.standing.handed {
            return Ok(None);
        }
        let seen = found.seen.as_ref().map(|seen| &seen.standing);
        Ok(match seen {
            Some(seen) if seen.declined == Some(epoch) || is_over(seen) => None,
            _ => Some(format!(
                "this end hears that the other one has declined the demotion.{}",
                ails(found)
            )),
        })
    })?;
    let taken = metadata.act(Action::MirrorPromote, name, |meta| admin::take_back_mirror(meta, name));
    taken.described().map(drop)
}

/// What is known of the other end before force is used.
enum Asked {
    /// It answers.
    Answers(Standing),
    /// It does not, or could not be asked: in words.
    Silent(String),
}

fn heard(seen: Option<&Seen>) -> String {
    seen.map_or_else(
        || "It was never heard.".to_owned(),
        |seen| format!("It was heard last at {}.", timestamp(seen.at, 0)),
    )
}

fn ask(found: &Mirror, arguments: &PromoteArguments, endpoints: &Endpoints) -> Result<Asked> {
    match link(found, arguments, endpoints) {
        Ok(link) => answered(found, link.look().map(|there| there.standing), now().as_secs()),
        Err(why) => {
            let why = format!("The other end could not be asked from here: {}.", why.what);
            unknown(found, &why, now().as_secs())
        }
    }
}

/// Silent is who gives no answer at all. One that refuses, or says what cannot be believed, lives, or something before it does.
fn answered(found: &Mirror, looked: Result<Standing>, now: u64) -> Result<Asked> {
    match looked {
        Ok(standing) => Ok(Asked::Answers(standing)),
        Err(why) if why.kind == Kind::Unreachable => {
            Ok(Asked::Silent(format!("{}. {}", why.what, heard(found.seen.as_ref()))))
        }
        Err(why) if why.kind == Kind::Interrupted => Err(why),
        Err(why) => {
            let why = format!(
                "The other end, or something before it, LIVES, and does not say what it is: {}. Where it is the primary its hosts go on writing.",
                why.what.trim_end_matches('.')
            );
            unknown(found, &why, now)
        }
    }
}

/// It does not say what it is: by what whoever is at the mirror has seen. One that was seen a moment ago, and not just now, may be anything, and lives
/// perhaps.
fn unknown(found: &Mirror, why: &str, now: u64) -> Result<Asked> {
    let seen = found.seen.as_ref();
    let silent = format!("{why} {}", heard(seen));
    let Some(seen) = seen else {
        return Ok(Asked::Silent(silent));
    };
    match now.checked_sub(seen.at) {
        Some(since) if since < SEEN_S => Ok(Asked::Answers(seen.standing.clone())),
        Some(since) if since >= UNHEARD_S => Ok(Asked::Silent(silent)),
        // Or this end's clock was set back.
        _ => Err(conflict(format!(
            "what the other end of mirror {} is now is not known here. {silent}",
            found.name
        ))
        .advice(format!(
            "Mend that, have it asked (`--seal-key FILE`), or give the command again when it is heard (`amita mirror show {}`), or was not for {UNHEARD_S} s.",
            found.name
        ))),
    }
}

fn force(arguments: &PromoteArguments, endpoints: &Endpoints, metadata: &Admin, found: &Mirror) -> Result<()> {
    let name = &arguments.name;
    metadata.permit(Action::MirrorForce)?;
    let is_secondary = found.standing.role == MirrorRole::Secondary;
    let asked = ask(found, arguments, endpoints)?;
    if let Asked::Answers(other) = &asked
        && is_secondary
        && matches!(other.role, MirrorRole::Primary | MirrorRole::Promoting)
    {
        let what = format!(
            "the other end of mirror {name} answers, and is {}: nothing needs to be lost",
            other.role
        );
        return Err(conflict(what).advice(
            "Demote it, there (`amita mirror demote`); then promote this end in order, without --force. To write to what is here beside it, make \
             clones of a point (`amita volume clone VOLUME@POINT`).",
        ));
    }
    // What can be promoted by force is asked about; all else is refused in a moment.
    if is_secondary || found.standing.role == MirrorRole::Deposed {
        confirm::destroys(arguments.yes, name, &lost(found, &asked))?;
    }
    let forced = metadata.act(Action::MirrorForce, name, |meta| admin::force_mirror(meta, name));
    forced.described().map(drop)
}

/// What is lost by force.
fn lost(found: &Mirror, asked: &Asked) -> String {
    let name = &found.name;
    let other = match asked {
        Asked::Answers(other) => format!(
            "The other end answers, and is {}, in epoch {}.",
            other.role, other.epoch
        ),
        Asked::Silent(why) => why.clone(),
    };
    if found.standing.role == MirrorRole::Deposed {
        return format!(
            "Mirror {name} keeps what this end has, and deposes the other one: what was written there since the split is given up when it is \
             resynced. {other}"
        );
    }
    let point = found.standing.point.and_then(|point| found.standing.find(point));
    let at = match (point, lag(found, now().as_secs())) {
        (Some(point), Some(lag)) => format!(
            "point {}, which was cut at {} by the other end's clock and is {lag} s old",
            point.name,
            timestamp(point.cut_at, 0)
        ),
        (Some(point), None) => format!("point {}, which was cut at {}", point.name, timestamp(point.cut_at, 0)),
        (None, _) => "no point, as it was before anything was brought from the other end".to_owned(),
    };
    format!(
        "Mirror {name} is promoted at {at}: what the other end has acknowledged since is lost. {other} It may still be written by those who reach \
         it, until it hears of this; what they write is kept there until you say `amita mirror resync`."
    )
}

/// The newest point that both ends have, by what was seen of the other one.
fn would_return(found: &Mirror) -> Result<Option<PointName>> {
    if found.standing.role != MirrorRole::Deposed {
        let what = format!(
            "mirror {} is {} here, and only an end that was deposed goes back to a point",
            found.name, found.standing.role
        );
        return Err(conflict(what));
    }
    match &found.seen {
        Some(seen) => Ok(common(&found.standing, &seen.standing)),
        None => Err(conflict(format!(
            "the other end of mirror {} was never heard",
            found.name
        ))),
    }
}

pub(super) fn resync(arguments: &ResyncArguments, metadata: &Admin) -> Result<()> {
    let name = &arguments.name;
    metadata.permit(Action::MirrorResync)?;
    let reader = metadata.reader();
    let found = admin::mirror(&reader, name).described()?;
    let begun = found.returning.as_ref();
    let to = match (arguments.dry_run, begun) {
        (true, _) => would_return(&found)?,
        // It was begun before.
        (false, Some(returning)) if !returning.given_up => returning.to,
        // Or it was to be given up by a promotion by force, which has come to nothing: it goes on.
        (false, _) => {
            let begun = metadata.act(Action::MirrorResync, name, |meta| admin::begin_return(meta, name));
            begun.described()?
        }
    };
    let cut_at = to.and_then(|to| found.standing.find(to)).map(|point| point.cut_at);
    let found = match arguments.dry_run || arguments.no_wait {
        true => admin::mirror(&reader, name).described()?,
        false => {
            interrupt::catch();
            until(name, metadata, arguments.json, |found| {
                let done = found.returning.as_ref().map_or(0, |returning| returning.done.len());
                Ok(match found.standing.role {
                    MirrorRole::Deposed => Some(format!(
                        "{done} of {} volumes have gone back.{}",
                        found.volumes.len(),
                        ails(found)
                    )),
                    _ => None,
                })
            })?
        }
    };
    if !arguments.dry_run && !arguments.no_wait {
        wanted(&found, found.standing.role == MirrorRole::Secondary, "one that follows")?;
    }
    let shown = Resynced {
        common: to.map(|to| to.to_string()),
        cut_at,
        dry_run: arguments.dry_run,
        mirror: view(&found, now().as_secs()),
    };
    print(arguments.json, &shown, || resynced(name, to, cut_at, arguments.dry_run))
}

fn resynced(name: &str, to: Option<PointName>, cut_at: Option<u64>, is_dry: bool) -> String {
    let kept = "what the volumes were is kept as snapshots (`before-revert-...`)";
    match (to, is_dry) {
        (Some(to), true) => format!(
            "Mirror {name} would go back to point {to}, the newest that both ends have{}: what was written here since is given up, and {kept}. \
             Nothing was changed.\n",
            cut_at.map_or_else(String::new, |at| format!(", cut at {}", timestamp(at, 0)))
        ),
        (None, true) => format!(
            "The ends of mirror {name} have no point in common: what the volumes are now would be kept as snapshots, and all of them be brought. \
             Nothing was changed.\n"
        ),
        (Some(to), false) => {
            format!("Mirror {name} goes back to point {to}, and follows the other end from there; {kept}.\n")
        }
        (None, false) => format!(
            "Mirror {name} follows the other end, and all is brought, for there is no point in common. What the volumes were is kept as snapshots.\n"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn seen(ago: Option<i64>) -> Mirror {
        let mut record = serde_json::json!({
            "id": "00000000-0000-0000-0000-000000000077", "name": "dr", "role": "secondary", "epoch": 0, "volumes": [], "peer": {},
            "interval_s": 60, "keep": 3
        });
        if let Some(ago) = ago {
            let at = NOW.saturating_add_signed(-ago);
            record["seen"] = serde_json::json!({ "role": "primary", "epoch": 0, "at": at, "clock": at });
        }
        serde_json::from_value(record).expect("a record")
    }

    /// Between the time in which it is believed to be what it was, and the one from which on it is unheard, it may be primary.
    #[test]
    fn who_cannot_ask_goes_by_what_was_seen_just_now_or_not_for_long_alone() {
        let asked = |ago| unknown(&seen(ago), "no key", NOW);
        for ago in [0, SEEN_S as i64 - 1] {
            assert!(matches!(asked(Some(ago)), Ok(Asked::Answers(_))), "{ago}");
        }
        for ago in [SEEN_S as i64, UNHEARD_S as i64 - 1, -1] {
            let Err(refused) = asked(Some(ago)) else {
                panic!("{ago} s ago");
            };
            assert!(refused.kind == Kind::Conflict && refused.advice.contains("--seal-key"));
        }
        for ago in [Some(UNHEARD_S as i64), None] {
            let Ok(Asked::Silent(why)) = asked(ago) else {
                panic!("{ago:?} s ago");
            };
            assert!(why.contains("no key"));
        }
    }

    /// Whoever answers with a refusal lives: that is not taken for an end that is gone.
    #[test]
    fn silent_is_who_gives_no_answer_at_all() {
        let asked = |kind, ago| answered(&seen(Some(ago)), Err(Failure::new("it says nothing").kind(kind)), NOW);
        assert!(matches!(asked(Kind::Unreachable, 5), Ok(Asked::Silent(_))));
        for kind in [Kind::Failed, Kind::Conflict, Kind::NotFound] {
            assert!(matches!(asked(kind, 5), Ok(Asked::Answers(other)) if other.role == MirrorRole::Primary));
            assert!(asked(kind, 60).is_err_and(|why| why.kind == Kind::Conflict), "{kind:?}");
            let Ok(Asked::Silent(why)) = asked(kind, UNHEARD_S as i64) else {
                panic!("{kind:?}");
            };
            assert!(why.contains("LIVES"), "whoever gives it up is told: {why}");
        }
        assert!(asked(Kind::Interrupted, 5).is_err_and(|why| why.kind == Kind::Interrupted));
    }

    #[test]
    fn what_was_asked_for_and_did_not_happen_is_no_success() {
        let mut found = seen(None);
        assert_eq!(wanted(&found, true, "the primary"), Ok(()));
        found.standing.role = MirrorRole::Deposed;
        let refused = wanted(&found, false, "the primary").expect_err("it is deposed");
        assert!(
            refused.kind == Kind::Conflict && refused.what.contains("deposed"),
            "{refused:?}"
        );
    }
}
