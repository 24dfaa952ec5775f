//! `amita volume move`.

use crate::admin::{Admin, Described};
use amita_control::access::Action;
use amita_control::admin::{self, MoveState};
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::interrupt;
use amita_terminal::table::print;
use std::time::{Duration, Instant};

/// How often the end of a move is looked for.
const LOOK: Duration = Duration::from_millis(50);
/// A move takes a moment. A wish that nobody has carried out after so long is taken back: it must not come true when
/// nobody thinks of it any more.
const PATIENCE: Duration = Duration::from_secs(60);

/// `amita volume move`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Its name
    pub name: String,
    /// The node that shall own it
    #[arg(long, value_name = "NODE")]
    pub to: String,
    /// Do not wait until it does
    #[arg(long)]
    pub no_wait: bool,
    /// Say what has become of it as JSON
    #[arg(long)]
    pub json: bool,
}

/// Wishes it, and waits.
pub(super) fn run(arguments: &Arguments, metadata: &Admin) -> Result<()> {
    let Arguments { name, to, .. } = arguments;
    interrupt::catch();
    let began = Instant::now();
    let asked = metadata.act(Action::VolumeMove, name, |meta| admin::move_volume(meta, name, to));
    let wish = asked.described()?;
    let take_back = || metadata.act(Action::VolumeMove, name, |meta| admin::drop_move(meta, &wish));
    let say = |moved: bool| {
        let value = serde_json::json!({
            "volume": name, "to": to, "number": wish.number, "moved": moved,
            "took_ms": moved.then(|| began.elapsed().as_millis() as u64),
        });
        print(arguments.json, &value, || {
            if moved {
                format!("Node {to} owns volume {name} now.\n")
            } else {
                format!("Node {to} is asked to take volume {name} over; `amita volume list` shows who owns it.\n")
            }
        })
    };
    if arguments.no_wait {
        return say(false);
    }
    let give_up = |what: String, advice: &str| {
        // Where that fails the wish stays: the first error is the one to tell.
        let _ = take_back();
        Err(Failure::new(what).advice(advice))
    };
    loop {
        match admin::move_state(&metadata.reader(), &wish).described()? {
            MoveState::Done => return say(true),
            MoveState::Refused(why) => {
                return Err(Failure::new(format!("node {to} cannot take volume {name} over: {why}")));
            }
            MoveState::Dropped { owner } => {
                let owner = owner.map_or_else(|| "nobody".to_owned(), |owner| format!("node {owner}"));
                return Err(Failure::new(format!(
                    "volume {name} was not moved: the wish was taken back or another was made, and {owner} owns it"
                ))
                .kind(Kind::Conflict)
                .advice("`amita volume list` shows who owns it; `amita events` may say why."));
            }
            _ if interrupt::caught() => {
                let _ = take_back();
                return Err(Failure::interrupted());
            }
            _ if began.elapsed() > PATIENCE => {
                return give_up(
                    format!(
                        "node {to} has not taken volume {name} over within {} s; the wish is taken back",
                        PATIENCE.as_secs()
                    ),
                    "See the logs of that node and of the present owner (`amita volume list`).",
                );
            }
            _ => std::thread::sleep(LOOK),
        }
    }
}
