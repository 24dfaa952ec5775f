//! `amita volume flatten`: a clone that needs what it was made from no more.

use crate::admin::{Admin, Described};
use amita_control::access::Action;
use amita_control::admin::{self, FlattenState};
use amita_terminal::error::{Failure, Result};
use amita_terminal::interrupt;
use amita_terminal::output;
use amita_terminal::progress::{self, ProgressBar};
use amita_terminal::say_line;
use amita_terminal::table::print;
use amita_types::map::Flatten;
use serde::Serialize;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How often it is looked how far it has come.
const LOOK: Duration = Duration::from_millis(200);

/// `amita volume flatten`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The clone
    pub name: String,
    /// Do not wait for the end
    #[arg(long)]
    pub no_wait: bool,
    /// Take back what was asked for; what is done stays, and costs nothing
    #[arg(long, conflicts_with_all = ["no_wait", "json"])]
    pub cancel: bool,
    /// Say what was done as JSON
    #[arg(long)]
    pub json: bool,
}

/// As JSON says it.
#[derive(Serialize)]
struct Shown<'a> {
    volume: &'a str,
    id: u64,
    /// Of how many chunks it is known that they need nothing, and how many there are.
    done_chunks: u64,
    chunks: u64,
    /// It needs nothing of another volume any more.
    flat: bool,
}

fn shown<'a>(name: &'a str, record: &Flatten, flat: bool) -> Shown<'a> {
    Shown {
        volume: name,
        id: record.volume.0,
        done_chunks: if flat { record.chunks } else { record.done },
        chunks: record.chunks,
        flat,
    }
}

pub(super) fn run(arguments: &Arguments, metadata: &Admin) -> Result<()> {
    let name = &arguments.name;
    if arguments.cancel {
        let cancelled = metadata.act(Action::VolumeFlatten, name, |meta| admin::cancel_flatten(meta, name));
        match cancelled.described()? {
            true => say_line!("Clone {name} is not flattened any more, and holds what it was made from."),
            false => say_line!("Volume {name} was not being flattened."),
        }
        return Ok(());
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let asked = metadata.act(Action::VolumeFlatten, name, |meta| {
        admin::flatten_volume(meta, name, now)
    });
    let asked = asked.described()?;
    if arguments.no_wait {
        return print(arguments.json, &shown(name, &asked, false), || {
            format!("Clone {name} is being flattened; `amita volume show {name}` says how far it is.\n")
        });
    }
    interrupt::catch();
    let bar = match arguments.json {
        true => ProgressBar::hidden(),
        false => progress::counted().with_message("flattening, chunks"),
    };
    bar.set_length(asked.chunks);
    let ended = wait(name, metadata, &bar);
    bar.finish_and_clear();
    ended?;
    print(arguments.json, &shown(name, &asked, true), || {
        format!(
            "Volume {name} is flat: it needs nothing of what it was made from, and shares blocks until they are written.\n"
        )
    })
}

/// Until it is flat. Whoever is interrupted stops waiting; the flattening goes on.
fn wait(name: &str, metadata: &Admin, bar: &ProgressBar) -> Result<()> {
    let reader = metadata.reader();
    let mut ails = None;
    loop {
        let all_made = match admin::flatten_progress(&reader, name).described()? {
            FlattenState::Flat => return Ok(()),
            FlattenState::Cancelled => {
                return Err(Failure::new(format!("the flattening of {name} was taken back"))
                    .advice("Give the command again where it is to be flattened; what was done stays."));
            }
            FlattenState::Making(record) => {
                bar.set_position(record.done);
                if record.ails.is_some() && record.ails != ails {
                    let why = record.ails.clone().unwrap_or_default();
                    let told = format!("It does not go on now, and is tried again: {why}. See `amita status`.");
                    bar.suspend(|| output::beside(&told));
                }
                ails.clone_from(&record.ails);
                record.is_made()
            }
        };
        if all_made {
            let ended = metadata.act(Action::VolumeFlatten, name, |meta| admin::end_flatten(meta, name));
            ended.described()?;
            continue;
        }
        interrupt::sleep(LOOK).map_err(|failure| {
            failure.advice(format!(
                "The flattening goes on without this command: `amita volume show {name}` says how far it is, and `amita volume \
                 flatten {name} --cancel` takes it back."
            ))
        })?;
    }
}
