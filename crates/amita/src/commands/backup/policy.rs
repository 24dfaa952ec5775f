//! `amita backup policy`: what nodes back up by themselves, and which of it is kept.

mod verification;

use crate::admin::{Admin, Described as _};
use crate::cli::Endpoints;
use crate::commands::policies::{
    KeepArguments, either, keeps, meant, next_lines, next_run, next_times, now, parse_label, tell_unreadable,
};
use crate::logging::timestamp;
use amita_control::access::Action;
use amita_control::admin::{self, BackupChange, PolicyTarget};
use amita_control::backups::BackupStatus;
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::size;
use amita_terminal::table::{Table, print};
use amita_types::map::{BackupPolicy, BackupRun};
use serde::Serialize;
use verification::{VerifyArguments, VerifyChangeArguments};

/// What to do with policies of backups.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Make a policy: which volumes are backed up, into which repository, when, and which points are kept
    ///
    /// A node that has the repository's key file makes its runs, one node at a time. What it makes is called NAME/NUMBER/TIME in the
    /// repository; no other point is ever given up by it.
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
    /// What is not named stays as it is. A run that is under way ends, and is gone on with by what the policy says then.
    #[command(after_help = RULES)]
    Set(SetArguments),
    /// Have a run of a policy made now, beside its schedule
    ///
    /// The next node that may makes it; `show` says what becomes of it. A run that has failed and waits is tried again at once.
    Run {
        /// The policy
        name: String,
        /// Say what was done as JSON
        #[arg(long)]
        json: bool,
    },
    /// Have the repository of a policy verified now, beside its schedule
    ///
    /// As much is read as each time, and what was found damaged before is read again; the next node that may does it, and `show` says what was found.
    Verify {
        /// The policy
        name: String,
        /// Say what was done as JSON
        #[arg(long)]
        json: bool,
    },
    /// Delete a policy; the points that it has made stay, and no policy gives them up any more
    Delete {
        /// The policy
        name: String,
        /// Say what was deleted as JSON
        #[arg(long)]
        json: bool,
    },
}

const RULES: &str = "A schedule has the five fields of cron: minute, hour, day of month, month, day of week. \"30 2 * * *\" is half past two each day, \"0 */6 \
* * *\" every six hours, \"0 3 * * SUN\" Sundays at three; @hourly, @daily, @weekly, @monthly and @yearly are known. Of the policy's points \
those stay that at least one rule keeps for one of their volumes: so many of the newest (--keep-last), the newest of each of so many hours, \
days, weeks, months or years in which there is one.";

/// Which volumes.
#[derive(Debug, clap::Args)]
#[group(id = "backed_up", multiple = false)]
pub struct TargetArguments {
    /// It is for this volume, also when that is renamed; may be given again for more
    #[arg(long, value_name = "NAME")]
    pub volume: Vec<String>,
    /// It is for all volumes that have this label at the time
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_label)]
    pub label: Option<(String, String)>,
}

/// `amita backup policy create`.
#[derive(Debug, clap::Args)]
pub struct CreateArguments {
    /// Its name
    pub name: String,
    /// Which volumes it is for
    #[command(flatten)]
    pub target: TargetArguments,
    /// The repository, as the cluster knows it (`amita backup repository add`)
    #[arg(long, value_name = "REPOSITORY")]
    pub to: String,
    /// When, as cron says it
    #[arg(long, value_name = "PATTERN")]
    pub schedule: String,
    /// In which time zone the schedule is meant and days begin, by its IANA name
    #[arg(long, value_name = "ZONE", default_value = amita_types::map::DEFAULT_ZONE)]
    pub zone: String,
    /// Which points are kept; one of these is needed
    #[command(flatten)]
    pub keep: KeepArguments,
    /// All volumes of a run are one point, of one moment, at most 1,024; else each has a point of its own
    #[arg(long)]
    pub together: bool,
    /// A run that takes longer is ended, and tried again: what it has put stays
    #[arg(long, value_name = "SECONDS", default_value_t = amita_types::map::DEFAULT_BACKUP_LIMIT_S)]
    pub time_limit: u64,
    /// When its repository is verified
    #[command(flatten)]
    pub verify: VerifyArguments,
    /// It does nothing until `set --resume`
    #[arg(long)]
    pub paused: bool,
    /// Say what was made as JSON
    #[arg(long)]
    pub json: bool,
}

/// `amita backup policy set`.
#[derive(Debug, clap::Args)]
pub struct SetArguments {
    /// The policy
    pub name: String,
    /// Which volumes it is for
    #[command(flatten)]
    pub target: TargetArguments,
    /// The repository, as the cluster knows it; points in the one of before stay, and no policy gives them up
    #[arg(long, value_name = "REPOSITORY")]
    pub to: Option<String>,
    /// When, as cron says it; times count from now on
    #[arg(long, value_name = "PATTERN")]
    pub schedule: Option<String>,
    /// In which time zone the schedule is meant and days begin, by its IANA name
    #[arg(long, value_name = "ZONE")]
    pub zone: Option<String>,
    /// Which points are kept; 0 takes a rule away
    #[command(flatten)]
    pub keep: KeepArguments,
    /// All volumes of a run are one point, of one moment, from the next run on
    #[arg(long, conflicts_with = "one_by_one")]
    pub together: bool,
    /// Each volume has a point of its own, from the next run on
    #[arg(long)]
    pub one_by_one: bool,
    /// A run that takes longer is ended, and tried again
    #[arg(long, value_name = "SECONDS")]
    pub time_limit: Option<u64>,
    /// When its repository is verified
    #[command(flatten)]
    pub verify: VerifyChangeArguments,
    /// It does nothing for a while; times that pass meanwhile are not missed
    #[arg(long, conflicts_with = "resume")]
    pub pause: bool,
    /// It goes on
    #[arg(long)]
    pub resume: bool,
    /// Say what was done as JSON
    #[arg(long)]
    pub json: bool,
}

impl TargetArguments {
    fn target(&self) -> Option<PolicyTarget> {
        match (&self.volume[..], &self.label) {
            ([], None) => None,
            ([], Some((key, value))) => Some(PolicyTarget::Label {
                key: key.clone(),
                value: value.clone(),
            }),
            ([one], _) => Some(PolicyTarget::Volume(one.clone())),
            (several, _) => Some(PolicyTarget::Volumes(several.to_vec())),
        }
    }
}

/// A policy as JSON tells it.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    status: &'a BackupStatus,
    /// The next times, in seconds since 1970.
    next: Vec<u64>,
    /// The volumes that it is for now.
    volumes: Vec<String>,
    /// What keeps volumes that it is for from being backed up, in sentences.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    lacks: Vec<String>,
}

/// Does it.
///
/// # Errors
/// Says what happened, where, and what to do.
pub fn run(command: &Command, endpoints: &Endpoints) -> Result<()> {
    let metadata = Admin::connect(endpoints)?;
    match command {
        Command::Create(arguments) => create(arguments, &metadata),
        Command::List { json } => list(*json, &metadata),
        Command::Show { name, json } => show(name, *json, &metadata),
        Command::Set(arguments) => set(arguments, &metadata),
        Command::Run { name, json } => {
            let asked = metadata.act(Action::BackupPolicyRun, name, |meta| {
                admin::run_backup_policy(meta, name)
            });
            print(*json, &asked.described()?, || {
                format!(
                    "A run of backup policy {name} is begun by the next node that may; `amita backup policy show {name}` says how far it is.\n"
                )
            })
        }
        Command::Verify { name, json } => {
            let asked = metadata.act(Action::BackupPolicyRun, name, |meta| {
                admin::verify_backup_policy(meta, name)
            });
            print(*json, &asked.described()?, || {
                format!(
                    "A verification by backup policy {name} is begun by the next node that may; `amita backup policy show {name}` says how far it is.\n"
                )
            })
        }
        Command::Delete { name, json } => {
            let deleted = metadata.act(Action::BackupPolicyDelete, name, |meta| {
                admin::delete_backup_policy(meta, name)
            });
            print(*json, &deleted.described()?, || {
                format!("Backup policy {name} is deleted. The points that it has made stay.\n")
            })
        }
    }
}

fn create(arguments: &CreateArguments, metadata: &Admin) -> Result<()> {
    let change = BackupChange {
        target: arguments.target.target(),
        repository: Some(arguments.to.clone()),
        schedule: Some(arguments.schedule.clone()),
        zone: Some(arguments.zone.clone()),
        keep: arguments.keep.change(),
        together: Some(arguments.together),
        limit_s: Some(arguments.time_limit),
        paused: Some(arguments.paused),
        verify: arguments.verify.change(),
    };
    if change.target.is_none() {
        return Err(Failure::new("which volumes is the policy for?")
            .kind(Kind::Usage)
            .advice("Name a --volume, or a --label KEY=VALUE."));
    }
    let name = &arguments.name;
    let made = metadata.act(Action::BackupPolicyCreate, name, |meta| {
        admin::create_backup_policy(meta, name, &change, now())
    });
    say(&made.described()?, arguments.json, "made")
}

fn say(policy: &BackupPolicy, as_json: bool, done: &str) -> Result<()> {
    print(as_json, policy, || {
        let next = next_run(policy.paused, &policy.schedule, &policy.zone);
        format!("Backup policy {} is {done}. {next}\n", policy.name)
    })
}

fn set(arguments: &SetArguments, metadata: &Admin) -> Result<()> {
    let change = BackupChange {
        target: arguments.target.target(),
        repository: arguments.to.clone(),
        schedule: arguments.schedule.clone(),
        zone: arguments.zone.clone(),
        keep: arguments.keep.change(),
        together: either(arguments.together, arguments.one_by_one),
        limit_s: arguments.time_limit,
        paused: either(arguments.pause, arguments.resume),
        verify: arguments.verify.change(),
    };
    let name = &arguments.name;
    if change == BackupChange::default() {
        return Err(Failure::new("nothing is to be changed")
            .kind(Kind::Usage)
            .advice(format!(
                "See `amita backup policy set --help`; `amita backup policy show {name}` shows how it is."
            )));
    }
    let set = metadata.act(Action::BackupPolicySet, name, |meta| {
        admin::set_backup_policy(meta, name, &change, now())
    });
    say(&set.described()?, arguments.json, "changed")
}

fn list(as_json: bool, metadata: &Admin) -> Result<()> {
    let (all, unreadable) = admin::backup_policies(&metadata.reader(), now()).described()?;
    tell_unreadable(unreadable);
    print(as_json, &all, || {
        let head = [
            "policy",
            "for",
            "to",
            "schedule",
            "zone",
            "keeps",
            "last success",
            "next run",
            "verified",
            "",
        ];
        let mut table = Table::new(&head);
        for found in &all {
            let at = |time: Option<u64>| time.map_or_else(String::new, |time| timestamp(time, 0));
            table.row([
                found.policy.name.clone(),
                match found.policy.together {
                    true => format!("{}, together", meant(&found.policy.target, found.volume.as_deref())),
                    false => meant(&found.policy.target, found.volume.as_deref()),
                },
                found.policy.repository.clone(),
                found.policy.schedule.clone(),
                found.policy.zone.clone(),
                keeps(&found.policy.keep),
                at(found.runs.as_ref().and_then(|runs| runs.succeeded_at)),
                at(found.next_at),
                verification::in_list(found),
                how(found),
            ]);
        }
        table.text()
    })
}

fn how(found: &BackupStatus) -> String {
    let how = match (found, &found.runner) {
        (found, _) if found.fault.is_some() => "CANNOT BE READ".to_owned(),
        (found, _) if found.policy.paused => "paused".to_owned(),
        (found, _) if found.failing().is_some() => "FAILING".to_owned(),
        (found, _) if found.is_late() => "LATE".to_owned(),
        (found, _) if verification::is_overdue(found) => "NOT VERIFIED".to_owned(),
        (_, Some(node)) => format!("running at {node}"),
        _ => String::new(),
    };
    // Of the repository, and not of its backups: one does not hide the other.
    match (verification::is_damaged(found), how.as_str()) {
        (false, _) => how,
        (true, "") => "DAMAGED".to_owned(),
        (true, how) => format!("DAMAGED, {how}"),
    }
}

fn show(name: &str, as_json: bool, metadata: &Admin) -> Result<()> {
    let reader = metadata.reader();
    let found = admin::backup_policy(&reader, name, now()).described()?;
    let admin::BackupVolumes { volumes, lacks } = admin::backup_volumes(&reader, &found.policy).described()?;
    let after = found.runs.as_ref().map_or(0, |runs| runs.after);
    let policy = &found.policy;
    let shown = Shown {
        next: next_times(policy.paused, &policy.schedule, &policy.zone, after),
        volumes: volumes.into_iter().map(|(_, name)| name).collect(),
        lacks,
        status: &found,
    };
    print(as_json, &shown, || text(&found, &shown))
}

fn text(found: &BackupStatus, shown: &Shown<'_>) -> String {
    let policy = &found.policy;
    let mut out = format!(
        "policy    {}\nfor       {}: {} volumes now\nto        {}\nschedule  {} ({})\nkeeps     {}\nlimit     {} s for a run\n",
        policy.name,
        meant(&policy.target, found.volume.as_deref()),
        shown.volumes.len(),
        policy.repository,
        policy.schedule,
        policy.zone,
        keeps(&policy.keep),
        policy.limit_s,
    );
    if let Some(why) = &found.fault {
        out.push_str(&format!("FAULT     {why}\n"));
    }
    for why in shown.lacks.iter().chain(&found.clock) {
        out.push_str(&format!("FAILS     {}\n", amita_audit::plain(why)));
    }
    if policy.together {
        out.push_str("together  all volumes of a run are one point, of one moment\n");
    }
    let Some(runs) = &found.runs else {
        out.push_str("state     no node that may work with the repository has seen it yet: one that has its key file is needed\n");
        out.push_str(&verification::text(found));
        return out;
    };
    out.push_str(&format!(
        "so far    {} runs, {} points made, {} given up; {} runs failed, {} times missed; {} read, {} sent\n",
        runs.runs,
        runs.points,
        runs.forgotten,
        runs.failures,
        runs.missed,
        size::show(runs.read_bytes),
        size::show(runs.sent_bytes)
    ));
    if let Some(at) = runs.succeeded_at {
        out.push_str(&format!("success   {}\n", timestamp(at, 0)));
    }
    for (head, run) in [("running", &runs.run), ("last run", &runs.last)] {
        let Some(run) = run else { continue };
        out.push_str(&format!("{head:<10}{}\n", told(run, found.runner.as_deref())));
        for why in run.why.iter().chain(&run.notes) {
            out.push_str(&format!("          {}\n", amita_audit::plain(why)));
        }
    }
    if found.late_s > 0 {
        out.push_str(&format!("late      by {} s\n", found.late_s));
    }
    out.push_str(&next_lines(policy.paused, &shown.next));
    out.push_str(&verification::text(found));
    out
}

/// Since when a run is due and was begun, where it is, and its attempt.
fn stands(run: &BackupRun, runner: Option<&str>) -> String {
    let state = match (run.ended, run.again_at, runner) {
        (Some(ended), ..) => format!("ended {}", timestamp(ended, 0)),
        (None, Some(at), _) => format!("tried again at {}", timestamp(at, 0)),
        (None, None, Some(node)) => format!("at node {node}"),
        (None, None, None) => "at no node: it is gone on with by the next one that may".to_owned(),
    };
    format!(
        "due {}, begun {}, {state}, attempt {}",
        timestamp(run.due, 0),
        timestamp(run.began, 0),
        run.attempts
    )
}

fn told(run: &BackupRun, runner: Option<&str>) -> String {
    let mut text = format!(
        "{}: {} volumes, {} points made, {} given up, {} read, {} sent",
        stands(run, runner),
        run.volumes,
        run.points,
        run.forgotten,
        size::show(run.read_bytes),
        size::show(run.sent_bytes)
    );
    if run.failed > 0 {
        text.push_str(&format!(", {} FAILED", run.failed));
    }
    text
}
