//! `amita backup task`: what nodes are asked to do with a repository, once.

use crate::admin::{Admin, Described as _};
use crate::cli::Endpoints;
use crate::commands::policies::now;
use crate::logging::timestamp;
use amita_control::access::Action;
use amita_control::admin::{self, BackupTaskWish, UnreadableTask, WishedWork};
use amita_control::backups::task::{BackupTaskStatus, TaskState};
use amita_terminal::error::Result;
use amita_terminal::size;
use amita_terminal::table::{Table, print};
use amita_types::map::{BackupTask, BackupWork, PointForget, PointRestore};
use serde::Serialize;

/// What to do with tasks of backups.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Have a node back a volume up now, or a snapshot of one
    ///
    /// A node that has the repository's key file does it, and another one goes on where that dies. Of the volume a snapshot is taken, and what changed
    /// since its newest point is read. Asked for again in the same words it is the task that there is, however far that has come.
    BackUp(BackUpArguments),
    /// Have a node restore a volume of a point into a new volume
    ///
    /// The new volume is used by nobody until it is whole.
    Restore(RestoreArguments),
    /// Have a node give up a point, and remove from the repository what no other one needs
    Forget(ForgetArguments),
    /// List the tasks: those that go on, and those that have ended and were not removed
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a task, and how far it is
    Show {
        /// The task
        name: String,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Take a task back before its end: what a restore has begun to fill is deleted
    Cancel {
        /// The task
        name: String,
        /// Say what was done as JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove the record of a task that has ended or cannot be read; what it has made stays
    Remove {
        /// The task
        name: String,
        /// Say what was removed as JSON
        #[arg(long)]
        json: bool,
    },
}

/// What all tasks are told.
#[derive(Debug, clap::Args)]
pub struct Common {
    /// An attempt that takes longer is ended, and tried again: what it has put stays
    #[arg(long, value_name = "SECONDS", default_value_t = amita_types::map::DEFAULT_BACKUP_LIMIT_S)]
    pub time_limit: u64,
    /// Say what is begun as JSON
    #[arg(long)]
    pub json: bool,
}

/// `amita backup task back-up`.
#[derive(Debug, clap::Args)]
pub struct BackUpArguments {
    /// The task's name
    pub name: String,
    /// The volume, or a snapshot of it
    #[arg(value_name = "VOLUME[@SNAPSHOT]")]
    pub of: String,
    /// The repository, as the cluster knows it (`amita backup repository add`)
    #[arg(long, value_name = "REPOSITORY")]
    pub to: String,
    /// Read all of it, and count on no earlier point
    #[arg(long)]
    pub full: bool,
    #[command(flatten)]
    pub common: Common,
}

/// `amita backup task restore`.
#[derive(Debug, clap::Args)]
pub struct RestoreArguments {
    /// The task's name
    pub name: String,
    /// The point's number
    #[arg(value_name = "POINT")]
    pub point: u64,
    /// The repository, as the cluster knows it
    #[arg(long, value_name = "REPOSITORY")]
    pub from: String,
    /// What the point is called: one of another name is not restored
    #[arg(long, value_name = "NAME")]
    pub point_name: Option<String>,
    /// Which of the point's volumes, by the name that it had; where the point has one alone it need not be said
    #[arg(long, value_name = "NAME")]
    pub volume: Option<String>,
    /// The new volume's name
    #[arg(long, value_name = "VOLUME")]
    pub to: String,
    /// The pool that holds it
    #[arg(long, value_name = "NAME")]
    pub pool: String,
    /// Encrypted at rest, also where it was not when it was backed up; the nodes need the cluster's volume keys for that
    #[arg(long)]
    pub encrypted: bool,
    /// Not encrypted at rest, also where it was when it was backed up; it takes an administrator
    #[arg(long, conflicts_with = "encrypted")]
    pub plain: bool,
    /// Whose it is
    #[arg(long, value_name = "TENANT")]
    pub tenant: Option<String>,
    #[command(flatten)]
    pub common: Common,
}

/// `amita backup task forget`.
#[derive(Debug, clap::Args)]
pub struct ForgetArguments {
    /// The task's name
    pub name: String,
    /// The point's number
    #[arg(value_name = "POINT")]
    pub point: u64,
    /// The repository, as the cluster knows it
    #[arg(long, value_name = "REPOSITORY")]
    pub from: String,
    /// What the point is called: one of another name is not given up
    #[arg(long, value_name = "NAME")]
    pub point_name: Option<String>,
    #[command(flatten)]
    pub common: Common,
}

/// A task as JSON tells it.
#[derive(Serialize)]
struct Shown<'a> {
    state: TaskState,
    #[serde(flatten)]
    status: &'a BackupTaskStatus,
}

fn shown(status: &BackupTaskStatus) -> Shown<'_> {
    Shown {
        state: status.state(),
        status,
    }
}

/// Does it.
///
/// # Errors
/// Says what happened, where, and what to do.
pub fn run(command: &Command, endpoints: &Endpoints) -> Result<()> {
    let metadata = Admin::connect(endpoints)?;
    match command {
        Command::BackUp(arguments) => {
            let BackUpArguments {
                name,
                of,
                to,
                full,
                common,
            } = arguments;
            let work = WishedWork::Backup {
                of: of.clone(),
                full: *full,
            };
            create(name, to, work, common, &metadata)
        }
        Command::Restore(arguments) => {
            let work = WishedWork::Restore(PointRestore {
                point: arguments.point,
                point_name: arguments.point_name.clone(),
                volume: arguments.volume.clone(),
                to: arguments.to.clone(),
                pool: arguments.pool.clone(),
                encrypted: match (arguments.encrypted, arguments.plain) {
                    (false, false) => None,
                    (encrypted, _) => Some(encrypted),
                },
                tenant: arguments.tenant.clone(),
            });
            let RestoreArguments { name, from, common, .. } = arguments;
            create(name, from, work, common, &metadata)
        }
        Command::Forget(arguments) => {
            let work = WishedWork::Forget(PointForget {
                point: arguments.point,
                point_name: arguments.point_name.clone(),
            });
            let ForgetArguments { name, from, common, .. } = arguments;
            create(name, from, work, common, &metadata)
        }
        Command::List { json } => list(*json, &metadata),
        Command::Show { name, json } => {
            let found = admin::backup_task(&metadata.reader(), name).described()?;
            print(*json, &shown(&found), || text(&found))
        }
        Command::Cancel { name, json } => {
            let done = metadata.act(Action::BackupCancel, name, |meta| {
                admin::cancel_backup_task(meta, name, now())?;
                admin::backup_task(meta, name)
            });
            let found = done.described()?;
            print(*json, &shown(&found), || match found.has_ended() {
                true => format!("Backup task {name} is cancelled.\n"),
                false => format!("Backup task {name} is taken back; the node that is at it ends it.\n"),
            })
        }
        Command::Remove { name, json } => {
            let removed = metadata.act(Action::BackupTaskRemove, name, |meta| {
                admin::remove_backup_task(meta, name)
            });
            let told = match removed.described()? {
                Some(task) => serde_json::json!(task),
                None => serde_json::json!({ "name": name }),
            };
            print(*json, &told, || {
                format!("Backup task {name} is removed. What it has made stays.\n")
            })
        }
    }
}

fn create(name: &str, repository: &str, work: WishedWork, common: &Common, metadata: &Admin) -> Result<()> {
    let wish = BackupTaskWish {
        repository: repository.to_owned(),
        work,
        limit_s: Some(common.time_limit),
    };
    let made = metadata.act(wish.work.action(), name, |meta| {
        admin::create_backup_task(meta, name, &wish, now())?;
        admin::backup_task(meta, name)
    });
    let found = made.described()?;
    print(common.json, &shown(&found), || {
        format!(
            "Backup task {name} is {}; `amita backup task show {name}` says how far it is.\n",
            state(&found)
        )
    })
}

fn what(task: &BackupTask) -> String {
    match &task.work {
        BackupWork::Backup(work) => match &work.snapshot {
            Some(snapshot) => format!("back up {}@{}", work.name, snapshot.name),
            None => format!("back up {}", work.name),
        },
        BackupWork::Restore(work) => format!("restore point {} into {}", work.point, work.to),
        BackupWork::Forget(work) => format!("forget point {}", work.point),
    }
}

const NOT_READABLE: &str = "NOT READABLE";

fn state(found: &BackupTaskStatus) -> String {
    if found.fault.is_some() {
        return NOT_READABLE.to_owned();
    }
    match (found.state(), &found.runner) {
        (TaskState::Running, Some(node)) => format!("running at {node}"),
        (TaskState::Waiting, _) => match found.run.again_at {
            Some(at) if found.run.failures > 0 => format!("FAILING, tried again at {}", timestamp(at, 0)),
            Some(at) => format!("waiting until {}", timestamp(at, 0)),
            None => "waiting".to_owned(),
        },
        (TaskState::Failed, _) => "FAILED".to_owned(),
        (TaskState::Done, _) => "done".to_owned(),
        (TaskState::Cancelled, _) => "cancelled".to_owned(),
        (TaskState::Cancelling, _) => "cancelling".to_owned(),
        (TaskState::Running, None) => "running".to_owned(),
    }
}

fn list(as_json: bool, metadata: &Admin) -> Result<()> {
    let (all, unreadable) = admin::backup_tasks(&metadata.reader()).described()?;
    let mut as_shown: Vec<serde_json::Value> = all.iter().map(|found| serde_json::json!(shown(found))).collect();
    as_shown.extend(unreadable.iter().map(shown_unreadable));
    print(as_json, &as_shown, || {
        let mut table = Table::new(&["task", "what", "repository", "asked for", "point", "state"]);
        for found in &all {
            table.row([
                found.task.name.clone(),
                what(&found.task),
                found.task.repository.clone(),
                timestamp(found.task.asked_at, 0),
                found
                    .run
                    .made
                    .as_ref()
                    .map_or_else(String::new, |made| made.point.to_string()),
                state(found),
            ]);
        }
        for found in &unreadable {
            let mut row: [String; 6] = Default::default();
            row[0] = amita_audit::plain(&found.name).to_string();
            row[2] = found.remains.repository.clone().unwrap_or_default();
            row[5] = NOT_READABLE.to_owned();
            table.row(row);
        }
        let whys = unreadable.iter().map(|found| format!("{}\n", found.why));
        table.text() + &whys.collect::<String>()
    })
}

/// One whose record nobody can read, as JSON tells it.
fn shown_unreadable(found: &UnreadableTask) -> serde_json::Value {
    let UnreadableTask { name, why, remains } = found;
    serde_json::json!({
        "state": "unreadable",
        "task": { "id": remains.id, "name": name, "repository": remains.repository, "asked_at": remains.asked_at },
        "fault": why.to_string(),
    })
}

fn text(found: &BackupTaskStatus) -> String {
    let BackupTaskStatus { task, run, place, .. } = found;
    let mut out = format!(
        "task        {}\nwhat        {}\nrepository  {}\nasked for   {}\nlimit       {} s for an attempt\nstate       {}\n",
        task.name,
        what(task),
        task.repository,
        timestamp(task.asked_at, 0),
        task.limit_s,
        state(found),
    );
    if let Some(why) = &found.fault {
        out.push_str(&format!("FAULT       {why}\n"));
    }
    if run.attempts > 0 {
        let began = timestamp(run.attempt_began, 0);
        out.push_str(&format!(
            "attempt     {}, begun {began} at node {}\n",
            run.attempts, run.node
        ));
    }
    if let Some(place) = place {
        let far = format!("{} of {}", size::show(place.done_bytes), size::show(place.total_bytes));
        out.push_str(&format!("progress    {far}: {}\n", amita_audit::plain(&place.step)));
    }
    if let Some(end) = run.end {
        out.push_str(&format!("ended       {}\n", timestamp(end.at, 0)));
    }
    if let Some(made) = &run.made {
        out.push_str(&format!(
            "point       {} {}\n",
            made.point,
            amita_audit::plain(&made.point_name)
        ));
        let (read, sent, written) = (
            size::show(made.read_bytes),
            size::show(made.sent_bytes),
            size::show(made.written_bytes),
        );
        out.push_str(&format!(
            "bytes       {} large, {read} read, {sent} sent, {written} written\n",
            size::show(made.size_bytes)
        ));
    }
    for why in &run.why {
        out.push_str(&format!("FAILS       {}\n", amita_audit::plain(why)));
    }
    for note in &run.notes {
        out.push_str(&format!("note        {}\n", amita_audit::plain(note)));
    }
    out
}
