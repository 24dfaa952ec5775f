//! `amita snapshot-policy`: snapshots that are taken by themselves, and which of them are kept.

use crate::admin::{Admin, Described};
use crate::cli::Endpoints;
use crate::commands::policies::{
    KeepArguments, either, keeps, meant, next_lines, next_run, next_times, now, parse_label, tell_unreadable,
};
use crate::logging::timestamp;
use amita_control::access::Action;
use amita_control::admin::{self, AdminError, PolicyChange, PolicyTarget, Pruning, Retained};
use amita_control::policy::retention::Verdict;
use amita_control::policy::standing::PolicyStatus;
use amita_terminal::error::{Failure, Result};
use amita_terminal::table::{Table, print};
use amita_types::map::{Policy, Run, RunSet};
use serde::Serialize;

/// What to do with policies.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Make a policy: of which volumes snapshots are taken, when, and which of them are kept
    ///
    /// The node that leads takes them, whatever node that is. Each has the policy's name as a label; what has no such label is never
    /// deleted by it.
    #[command(after_help = RULES)]
    Create(CreateArguments),
    /// List the policies
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a policy: what it is for, its last run and its next ones
    Show {
        /// The policy
        name: String,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Change a policy, pause it, or have it go on
    ///
    /// What is not named stays as it is. Snapshots that it has made stay its own; the rules count from its next run on.
    #[command(after_help = RULES)]
    Set(SetArguments),
    /// Delete now what no rule of a policy keeps; or only say what that would be, and what is kept for which reason
    ///
    /// Each run of the policy does this, volume by volume. Snapshots that the policy has not made are left alone, and so are those that are
    /// protected. Those that were cloned become hidden, and go with their last clone.
    Prune(PruneArguments),
    /// Delete a policy; the snapshots that it has made stay, and nothing deletes them any more
    Delete {
        /// The policy
        name: String,
        /// Say what was deleted as JSON
        #[arg(long)]
        json: bool,
    },
}

const RULES: &str = "A schedule has the five fields of cron: minute, hour, day of month, month, day of week. \"0 * * * *\" is each hour, \"30 2 * * MON-FRI\" \
half past two on working days, \"0 0 L * *\" the last day of each month; @hourly, @daily, @weekly, @monthly and @yearly are known. A sixth \
field in front has seconds. Of the policy's snapshots of a volume those stay that at least one rule keeps: so many of the newest \
(--keep-last), the newest of each of so many hours, days, weeks, months or years in which there is one.";

/// Which volumes.
#[derive(Debug, clap::Args)]
#[group(id = "target", multiple = false)]
pub struct TargetArguments {
    /// It is for this volume, also when that is renamed; may be given again for more
    #[arg(long, value_name = "NAME")]
    pub volume: Vec<String>,
    /// It is for all volumes that have this label at the time
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_label)]
    pub label: Option<(String, String)>,
    /// It is for all volumes of this pool
    #[arg(long, value_name = "NAME")]
    pub pool: Option<String>,
}

/// `amita snapshot-policy create`.
#[derive(Debug, clap::Args)]
pub struct CreateArguments {
    /// Its name
    pub name: String,
    /// Which volumes it is for
    #[command(flatten)]
    pub target: TargetArguments,
    /// When, as cron says it
    #[arg(long, value_name = "PATTERN")]
    pub schedule: String,
    /// In which time zone the schedule is meant and days begin, by its IANA name
    #[arg(long, value_name = "ZONE", default_value = amita_types::map::DEFAULT_ZONE)]
    pub zone: String,
    /// What the snapshots are called; {policy} is its name, {time} when one was due, as 20260131T020000Z
    #[arg(long, value_name = "TEXT", default_value = amita_types::map::DEFAULT_TEMPLATE)]
    pub template: String,
    /// Which snapshots are kept; one of these is needed
    #[command(flatten)]
    pub keep: KeepArguments,
    /// The snapshots of a run are of one moment: a set of all its volumes (a consistency group), at most 1,024
    #[arg(long)]
    pub together: bool,
    /// It does nothing until `set --resume`
    #[arg(long)]
    pub paused: bool,
    /// Say what was made as JSON
    #[arg(long)]
    pub json: bool,
}

/// `amita snapshot-policy set`.
#[derive(Debug, clap::Args)]
pub struct SetArguments {
    /// The policy
    pub name: String,
    /// Which volumes it is for
    #[command(flatten)]
    pub target: TargetArguments,
    /// When, as cron says it; times count from now on
    #[arg(long, value_name = "PATTERN")]
    pub schedule: Option<String>,
    /// In which time zone the schedule is meant and days begin, by its IANA name
    #[arg(long, value_name = "ZONE")]
    pub zone: Option<String>,
    /// What the snapshots are called from now on
    #[arg(long, value_name = "TEXT")]
    pub template: Option<String>,
    /// Which snapshots are kept; 0 takes a rule away
    #[command(flatten)]
    pub keep: KeepArguments,
    /// The snapshots of a run are of one moment, from the next run on
    #[arg(long, conflicts_with = "one_by_one")]
    pub together: bool,
    /// Each volume's snapshot is taken by itself, from the next run on
    #[arg(long)]
    pub one_by_one: bool,
    /// It does nothing for a while; times that pass meanwhile are not missed
    #[arg(long, conflicts_with = "resume")]
    pub pause: bool,
    /// It goes on
    #[arg(long)]
    pub resume: bool,
    /// Change nothing; say what the policy would keep then, and why
    #[arg(long)]
    pub dry_run: bool,
    /// Say what was done as JSON
    #[arg(long)]
    pub json: bool,
}

/// `amita snapshot-policy prune`.
#[derive(Debug, clap::Args)]
pub struct PruneArguments {
    /// The policy
    pub name: String,
    /// Delete nothing; say what would go, and what is kept and why
    #[arg(long)]
    pub dry_run: bool,
    /// Say it as JSON
    #[arg(long)]
    pub json: bool,
}

impl TargetArguments {
    fn target(&self) -> Option<PolicyTarget> {
        let volume = match &self.volume[..] {
            [] => None,
            [one] => Some(PolicyTarget::Volume(one.clone())),
            several => Some(PolicyTarget::Volumes(several.to_vec())),
        };
        let pool = self.pool.clone().map(PolicyTarget::Pool);
        let label = self.label.clone();
        volume
            .or(pool)
            .or_else(|| label.map(|(key, value)| PolicyTarget::Label { key, value }))
    }
}

/// A policy as JSON tells it.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    status: &'a PolicyStatus,
    /// The next times, in seconds since 1970.
    next: Vec<u64>,
    /// The volumes that it is for now.
    volumes: Vec<String>,
}

/// What was deleted, or would be, as JSON tells it.
#[derive(Serialize)]
struct Pruned<'a> {
    policy: &'a str,
    dry_run: bool,
    volumes: &'a [Retained],
    deleted: usize,
    /// Why some could not go.
    left: &'a [String],
}

/// Does it.
///
/// # Errors
/// Says what happened, where, and what to do.
pub fn run(command: &Command, metadata: &Endpoints) -> Result<()> {
    let metadata = Admin::connect(metadata)?;
    match command {
        Command::Create(arguments) => create(arguments, &metadata),
        Command::List { json } => list(*json, &metadata),
        Command::Show { name, json } => show(name, *json, &metadata),
        Command::Set(arguments) => set(arguments, &metadata),
        Command::Prune(arguments) => prune(arguments, &metadata),
        Command::Delete { name, json } => {
            let deleted = metadata.act(Action::PolicyDelete, name, |meta| admin::delete_policy(meta, name));
            print(*json, &deleted.described()?, || {
                format!("Snapshot policy {name} is deleted. The snapshots that it has made stay.\n")
            })
        }
    }
}

fn create(arguments: &CreateArguments, metadata: &Admin) -> Result<()> {
    let change = PolicyChange {
        target: arguments.target.target(),
        schedule: Some(arguments.schedule.clone()),
        zone: Some(arguments.zone.clone()),
        template: Some(arguments.template.clone()),
        keep: arguments.keep.change(),
        together: Some(arguments.together),
        paused: Some(arguments.paused),
    };
    if change.target.is_none() {
        return Err(Failure::new("which volumes is the policy for?")
            .kind(amita_terminal::error::Kind::Usage)
            .advice("Name a --volume, a --label KEY=VALUE or a --pool."));
    }
    let name = &arguments.name;
    let made = metadata.act(Action::PolicyCreate, name, |meta| {
        admin::create_policy(meta, name, &change)
    });
    say_policy(&made.described()?, arguments.json, "made")
}

fn say_policy(policy: &Policy, as_json: bool, done: &str) -> Result<()> {
    print(as_json, policy, || {
        let next = next_run(policy.paused, &policy.schedule, &policy.zone);
        format!("Snapshot policy {} is {done}. {next}\n", policy.name)
    })
}

fn set(arguments: &SetArguments, metadata: &Admin) -> Result<()> {
    let change = PolicyChange {
        target: arguments.target.target(),
        schedule: arguments.schedule.clone(),
        zone: arguments.zone.clone(),
        template: arguments.template.clone(),
        keep: arguments.keep.change(),
        together: either(arguments.together, arguments.one_by_one),
        paused: either(arguments.pause, arguments.resume),
    };
    let name = &arguments.name;
    if arguments.dry_run {
        let reader = metadata.reader();
        let policy = admin::changed_policy(&reader, name, &change).described()?;
        let all = admin::retained(&reader, &policy).described()?;
        return say_retained(&policy, &all, true, 0, &[], arguments.json);
    }
    if change == PolicyChange::default() {
        return Err(Failure::new("nothing is to be changed")
            .kind(amita_terminal::error::Kind::Usage)
            .advice(format!(
                "See `amita snapshot-policy set --help`; `amita snapshot-policy show {name}` shows how it is."
            )));
    }
    let set = metadata.act(Action::PolicySet, name, |meta| admin::set_policy(meta, name, &change));
    say_policy(&set.described()?, arguments.json, "changed")
}

fn prune(arguments: &PruneArguments, metadata: &Admin) -> Result<()> {
    let name = &arguments.name;
    let reader = metadata.reader();
    let policy = admin::policy(&reader, name, now()).described()?.policy;
    let all = admin::retained(&reader, &policy).described()?;
    if arguments.dry_run {
        return say_retained(&policy, &all, true, 0, &[], arguments.json);
    }
    let (mut deleted, mut left) = (0, Vec::new());
    let pruned = metadata.act(Action::PolicyPrune, name, |meta| {
        for volume in &all {
            // The oldest first.
            for snapshot in volume.snapshots.iter().rev().filter(|snapshot| snapshot.goes()) {
                match admin::delete_retained(meta, &policy, volume, snapshot)? {
                    Pruning::Deleted => deleted += 1,
                    Pruning::Gone => {}
                    Pruning::Left(why) => left.push(why),
                }
            }
        }
        Ok::<_, AdminError>(())
    });
    pruned.described().map_err(|failure| match deleted {
        0 => failure,
        deleted => failure.advice(format!(
            "{deleted} snapshots were deleted before that. `amita snapshot-policy prune {name} --dry-run` says which are left."
        )),
    })?;
    say_retained(&policy, &all, false, deleted, &left, arguments.json)
}

fn say_retained(
    policy: &Policy,
    all: &[Retained],
    dry_run: bool,
    deleted: usize,
    left: &[String],
    as_json: bool,
) -> Result<()> {
    let pruned = Pruned {
        policy: &policy.name,
        dry_run,
        volumes: all,
        deleted,
        left,
    };
    print(as_json, &pruned, || {
        let mut table = Table::new(&["volume", "snapshot", "taken", "what", "why"]);
        let (mut kept, mut going) = (0, 0);
        for volume in all {
            for snapshot in &volume.snapshots {
                let (what, why) = fate(snapshot, dry_run);
                *(if snapshot.goes() { &mut going } else { &mut kept }) += 1;
                let taken = timestamp(snapshot.taken_at, 0);
                table.row([volume.volume.clone(), snapshot.name.clone(), taken, what, why]);
            }
        }
        let sum = match dry_run {
            true => format!("{kept} snapshots stay, {going} would go.\n"),
            false => format!("{kept} snapshots stay, {deleted} are deleted; their space comes back by and by.\n"),
        };
        let left: String = left
            .iter()
            .map(|why| format!("Left: {}.\n", amita_audit::plain(why)))
            .collect();
        format!("{}{sum}{left}", table.text())
    })
}

fn fate(snapshot: &Verdict, dry_run: bool) -> (String, String) {
    match (snapshot.goes(), dry_run) {
        (true, dry_run) => {
            let what = if dry_run { "would go" } else { "goes" };
            let why = match snapshot.clones {
                0 => "no rule keeps it".to_owned(),
                clones => format!("no rule keeps it; hidden until its {clones} clones are gone"),
            };
            (what.to_owned(), why)
        }
        (false, _) if snapshot.protected => ("stays".to_owned(), "it is protected; no rule keeps it".to_owned()),
        (false, _) => ("stays".to_owned(), snapshot.kept_by.join(", ")),
    }
}

fn list(as_json: bool, metadata: &Admin) -> Result<()> {
    let (all, unreadable) = admin::policies(&metadata.reader(), now()).described()?;
    tell_unreadable(unreadable);
    print(as_json, &all, || {
        let head = ["policy", "for", "schedule", "zone", "keeps", "last run", "next run", ""];
        let mut table = Table::new(&head);
        for found in &all {
            let last = found.runs.as_ref().and_then(|runs| runs.last.as_ref());
            table.row([
                found.policy.name.clone(),
                match found.policy.together {
                    true => format!("{}, together", meant(&found.policy.target, found.volume.as_deref())),
                    false => meant(&found.policy.target, found.volume.as_deref()),
                },
                found.policy.schedule.clone(),
                found.policy.zone.clone(),
                keeps(&found.policy.keep),
                last.map_or_else(String::new, |last| timestamp(last.due, 0)),
                found.next_at.map_or_else(String::new, |next| timestamp(next, 0)),
                how(found),
            ]);
        }
        table.text()
    })
}

fn how(found: &PolicyStatus) -> String {
    let is_running = found.runs.as_ref().is_some_and(|runs| runs.run.is_some());
    match found {
        found if found.fault.is_some() => "CANNOT BE READ".to_owned(),
        found if found.policy.paused => "paused".to_owned(),
        found if found.failing().is_some() => "FAILING".to_owned(),
        _ if is_running => "running".to_owned(),
        _ => String::new(),
    }
}

fn show(name: &str, as_json: bool, metadata: &Admin) -> Result<()> {
    let reader = metadata.reader();
    let found = admin::policy(&reader, name, now()).described()?;
    let volumes = admin::policy_volumes(&reader, &found.policy).described()?;
    let after = found.runs.as_ref().map_or(0, |runs| runs.after);
    let shown = Shown {
        next: next_times(found.policy.paused, &found.policy.schedule, &found.policy.zone, after),
        volumes: volumes.into_iter().map(|(_, name)| name).collect(),
        status: &found,
    };
    print(as_json, &shown, || text(&found, &shown))
}

fn text(found: &PolicyStatus, shown: &Shown<'_>) -> String {
    let policy = &found.policy;
    let mut out = format!(
        "policy    {}\nfor       {}: {} volumes now\nschedule  {} ({})\nkeeps     {}\nnames     {}\n",
        policy.name,
        meant(&policy.target, found.volume.as_deref()),
        shown.volumes.len(),
        policy.schedule,
        policy.zone,
        keeps(&policy.keep),
        policy.template,
    );
    if let Some(why) = &found.fault {
        out.push_str(&format!("FAULT     {why}\n"));
    }
    if policy.together {
        out.push_str("together  the snapshots of a run are of one moment (a set)\n");
    }
    let Some(runs) = &found.runs else {
        out.push_str("state     no node that leads has seen it yet\n");
        return out;
    };
    out.push_str(&format!(
        "so far    {} runs, {} snapshots taken, {} deleted; {} failures, {} times missed\n",
        runs.runs, runs.taken, runs.deleted, runs.failures, runs.missed
    ));
    if policy.together || runs.sets + runs.sets_void > 0 {
        let (taken, void) = (runs.sets, runs.sets_void);
        out.push_str(&format!(
            "          {taken} sets taken; {void} were void, and were tried anew or given up\n"
        ));
    }
    if let Some(run) = &runs.run {
        out.push_str(&format!("running   {}\n", told(run)));
    }
    if let Some(last) = &runs.last {
        out.push_str(&format!("last run  {}\n", told(last)));
        for why in last.why.iter().chain(&last.notes) {
            out.push_str(&format!("          {}\n", amita_audit::plain(why)));
        }
    }
    if found.late_s > 0 {
        out.push_str(&format!("late      by {} s\n", found.late_s));
    }
    out.push_str(&next_lines(policy.paused, &shown.next));
    out
}

fn told(run: &Run) -> String {
    let ended = run.ended.map_or_else(
        || "not at its end".to_owned(),
        |ended| format!("ended {}", timestamp(ended, 0)),
    );
    let mut text = format!(
        "due {}, begun {}, {ended}: {} taken, {} deleted",
        timestamp(run.due, 0),
        timestamp(run.began, 0),
        run.taken,
        run.deleted
    );
    match &run.set {
        Some(RunSet {
            id: Some(id), volumes, ..
        }) => {
            text.push_str(&format!(", of one moment (set {id} of {volumes} volumes)"));
        }
        None if run.together => text.push_str(", its set is being taken"),
        _ => {}
    }
    for (count, what) in [
        (run.left, "left because they are protected or needed"),
        (run.gone, "volumes gone meanwhile"),
        (run.failed, "FAILED"),
    ] {
        if count > 0 {
            text.push_str(&format!(", {count} {what}"));
        }
    }
    text
}
