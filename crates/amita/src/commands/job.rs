//! `amita job`: what takes long, of all kinds.

use crate::admin::{Admin, Described};
use crate::cli::Endpoints;
use crate::logging::timestamp;
use amita_control::access::Action;
use amita_control::admin::{self, Job, JobKind, JobState, JobUnit};
use amita_terminal::error::Result;
use amita_terminal::size;
use amita_terminal::table::{Table, print};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What to do with jobs.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List what takes long at present, and what can be done about each
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Show one
    Show(Which),
    /// Have one stand still: nothing more of it is begun until it is resumed
    ///
    /// What has begun comes to its end. It stays paused when another node takes over, and when nodes are restarted. Copies,
    /// flattenings, scrubs and drains can wait; a store that is brought up to date cannot, for it is one copy less (`amita recovery set` says how hard that works).
    Pause(Which),
    /// Have one that stands still go on where it was
    Resume(Which),
    /// Take one back; what is done stays, but for a copy: that is removed
    Cancel(Which),
}

/// Which job.
#[derive(Debug, clap::Args)]
pub struct Which {
    /// Its id, as in `amita job list`
    #[arg(value_name = "JOB")]
    pub id: String,
    /// Say how it stands as JSON
    #[arg(long)]
    pub json: bool,
}

/// Does it.
///
/// # Errors
/// Says what happened, where, and what to do.
pub fn run(command: &Command, metadata: &Endpoints) -> Result<()> {
    let admin = Admin::connect(metadata)?;
    let by = admin.caller().who().name.clone();
    match command {
        Command::List { json } => {
            let jobs = admin::jobs(&admin.reader(), now()).described()?;
            print(*json, &jobs, || list(&jobs))
        }
        Command::Show(Which { id, json }) => {
            let job = admin::job(&admin.reader(), id, now()).described()?;
            print(*json, &job, || show(&job))
        }
        Command::Pause(Which { id, json }) => {
            let paused = admin.act(Action::JobPause, id, |meta| admin::pause_job(meta, id, &by, now()));
            let job = paused.described()?;
            print(*json, &job, || {
                format!("Job {id} stands still; `amita job resume {id}` has it go on.\n")
            })
        }
        Command::Resume(Which { id, json }) => {
            let resumed = admin.act(Action::JobResume, id, |meta| admin::resume_job(meta, id, &by, now()));
            let job = resumed.described()?;
            print(*json, &job, || format!("Job {id} goes on.\n"))
        }
        Command::Cancel(Which { id, json }) => {
            let job = admin::job(&admin.reader(), id, now()).described()?;
            let action = job.cancelled_by().described()?;
            admin
                .act(action, &job.object, |meta| admin::cancel_job(meta, &job))
                .described()?;
            print(*json, &job, || match job.kind {
                JobKind::Copy => format!("Job {id} is taken back: a node removes volume {}.\n", job.object),
                JobKind::Migrate => format!("Job {id} is taken back: volume {} stays where it is.\n", job.object),
                JobKind::Rekey => format!("Job {id} is taken back: volume {} stays as it is.\n", job.object),
                _ => format!("Job {id} is taken back. What is done stays.\n"),
            })
        }
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// How far it is, as people read it.
fn progress(job: &Job) -> String {
    let count = |value: u64| match job.unit {
        Some(JobUnit::Bytes) => size::show(value),
        _ => value.to_string(),
    };
    let unit = match job.unit {
        Some(JobUnit::Bytes) | None => "",
        Some(JobUnit::Chunks) => " chunks",
        Some(JobUnit::Groups) => " groups",
    };
    match (job.done, job.total, job.left) {
        (Some(done), Some(total), _) => format!("{} of {}{unit}", count(done), count(total)),
        (_, _, Some(left)) => format!("{}{unit} left", count(left)),
        _ => "not known".to_owned(),
    }
}

fn actions(job: &Job) -> String {
    let names = job.actions.iter().map(|action| match action {
        admin::JobAction::Cancel => "cancel",
        admin::JobAction::Pause => "pause",
        admin::JobAction::Resume => "resume",
    });
    names.collect::<Vec<_>>().join(", ")
}

fn list(jobs: &[Job]) -> String {
    if jobs.is_empty() {
        return "Nothing takes long at present.\n".to_owned();
    }
    let mut table = Table::new(&["job", "of", "state", "progress", "seconds left", "can be"]);
    for job in jobs {
        table.row([
            job.id.clone(),
            job.object.clone(),
            job.state.name().to_owned(),
            progress(job),
            job.left_s.map_or_else(|| "-".to_owned(), |left| left.to_string()),
            actions(job),
        ]);
    }
    table.text()
}

fn show(job: &Job) -> String {
    let mut text = format!(
        "Job {}: {} of {}, {}. Progress: {}.\n",
        job.id,
        job.kind.name(),
        job.object,
        job.state.name(),
        progress(job)
    );
    if let Some(paused) = &job.paused {
        let at = timestamp(paused.at, 0);
        text += &format!("It was paused by {} at {at}.\n", paused.by);
    }
    if let Some(ails) = &job.ails {
        // What runs has something to be known of all the same, as that hosts are slowed for it.
        text += &match job.state {
            JobState::Running => format!("Meanwhile {ails}.\n"),
            _ => format!("It does not go on: {ails}.\n"),
        };
    }
    if !job.actions.is_empty() {
        text += &format!("What can be done: {}.\n", actions(job));
    }
    text
}
