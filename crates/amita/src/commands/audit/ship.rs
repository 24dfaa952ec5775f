//! `amita audit ship`: each record at least once to a syslog server.
//!
//! The cursor is the number and hash of the last record that was handed over. It is written after that, so that what comes
//! in between is sent again; and since syslog acknowledges nothing, some records before it are sent again after a
//! connection broke. As a record that is known from before, the cursor also shows when the log was changed: then nothing more is shipped, and
//! the command fails. So it does when records were trimmed that it had not shipped: they are nowhere then.

use super::source::Source;
use super::syslog::{Receiver, Way, message};
use super::{Which, broken};
use crate::cli::Endpoints;
use amita_audit::{Fault, Head, Line, Verifier};
use amita_identity::Actor;
use amita_terminal::error::{Context, Failure, Kind, Result};
use amita_terminal::{interrupt, say_line};
use std::collections::VecDeque;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often a follower looks for new records, and tries again what did not work.
const PAUSE: Duration = Duration::from_secs(1);
/// How often it looks whether it is told to end.
const LOOK: Duration = Duration::from_millis(100);
/// After a connection broke, so many records before the last one are sent again: they may never have arrived.
const OVERLAP: usize = 64;
/// The cursor is written after so many records.
const BATCH: u64 = 64;

/// `amita audit ship`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    pub which: Which,
    /// Where to: HOST:PORT or tcp:HOST:PORT, udp:HOST:PORT, unix (/dev/log) or unix:PATH
    #[arg(long, env = "AMITA_AUDIT_SYSLOG", value_name = "WHERE")]
    pub syslog: Receiver,
    /// The file that says how far it is; made when it does not exist: from the first record on
    #[arg(long, env = "AMITA_AUDIT_CURSOR", value_name = "FILE")]
    pub cursor: PathBuf,
    /// Go on with what happens from now on, until the command is ended
    #[arg(long, short)]
    pub follow: bool,
}

pub(super) fn run(arguments: &Arguments, metadata: &Endpoints) -> Result<()> {
    interrupt::catch();
    let source = Source::open(&arguments.which, metadata)?;
    let mut shipper = Shipper {
        cursor: read_cursor(&arguments.cursor)?,
        file: &arguments.cursor,
        receiver: &arguments.syslog,
        way: None,
        is_new: false,
        recent: VecDeque::new(),
        host: Actor::here().whence.host,
        shipped: 0,
    };
    shipper.check(&source)?;
    let mut complained = None;
    loop {
        match shipper.round(&source) {
            Ok(()) => complained = None,
            Err(why) if !arguments.follow || why.kind != Kind::Unreachable => return Err(why),
            // A follower waits for who is away; it says so once.
            Err(why) if complained.as_ref() != Some(&why.what) => {
                log::warn!("{why}");
                complained = Some(why.what);
            }
            Err(_) => {}
        }
        if !arguments.follow {
            say_line!("{} records were shipped to {}.", shipper.shipped, arguments.syslog);
            return Ok(());
        }
        let until = Instant::now() + PAUSE;
        while Instant::now() < until {
            if interrupt::caught() {
                return Ok(());
            }
            std::thread::sleep(LOOK);
        }
    }
}

struct Shipper<'a> {
    /// The last record that was handed over.
    cursor: Option<Head>,
    file: &'a Path,
    receiver: &'a Receiver,
    way: Option<Way>,
    /// There was no cursor, and nothing was shipped yet.
    is_new: bool,
    /// What was sent last on this way.
    recent: VecDeque<String>,
    host: String,
    shipped: u64,
}

impl Shipper<'_> {
    /// Is the log whole, and the record that was shipped last the one that is there?
    fn check(&mut self, source: &Source) -> Result<()> {
        let known = self.cursor;
        if let Err(fault) = source.verify(known.as_slice())? {
            return Err(wrong(source, known, &fault)?);
        }
        self.is_new = known.is_none();
        if self.is_new {
            self.cursor = source.bounds()?.trimmed;
        }
        Ok(())
    }

    /// Ships what is there.
    fn round(&mut self, source: &Source) -> Result<()> {
        let before = self.cursor;
        let mut verifier = match before {
            Some(cursor) => Verifier::behind(cursor),
            None => Verifier::new(None),
        };
        let mut found = None;
        let outcome = source.for_each(verifier.next(), |place, text| {
            if interrupt::caught() {
                return Err(Failure::interrupted());
            }
            let line = match verifier.take(place, text) {
                Ok(line) => line,
                Err(fault) => {
                    let failure = broken(&fault);
                    found = Some(fault);
                    return Err(failure);
                }
            };
            self.ship(&line)?;
            self.cursor = Some(line.head());
            self.is_new = false;
            self.shipped += 1;
            if self.shipped.is_multiple_of(BATCH) {
                self.write_cursor()?;
            }
            Ok(())
        });
        self.write_cursor()?;
        match (outcome, found) {
            // Trimmed between the look at where it begins and the first record: it begins later now.
            (_, Some(_)) if self.is_new && source.bounds()?.trimmed != before => self.check(source),
            (_, Some(fault)) => Err(wrong(source, self.cursor, &fault)?),
            (Err(why), None) if why.kind == Kind::Interrupted => Ok(()),
            (outcome, None) => outcome,
        }
    }

    fn ship(&mut self, line: &Line) -> Result<()> {
        let message = message(line, &self.host, std::process::id());
        let away = |why: std::io::Error, receiver: &Receiver| {
            Failure::new(format!("{receiver} takes no records: {why}")).kind(Kind::Unreachable)
        };
        let is_open = self.way.as_ref().is_some_and(|way| way.check().is_ok());
        if !is_open {
            self.way = None;
            let mut way = Way::open(self.receiver).map_err(|why| away(why, self.receiver))?;
            for again in &self.recent {
                way.send(again).map_err(|why| away(why, self.receiver))?;
            }
            self.way = Some(way);
        }
        let way = self.way.as_mut().expect("it was opened");
        if let Err(why) = way.send(&message) {
            self.way = None;
            return Err(away(why, self.receiver));
        }
        self.recent.push_back(message);
        if self.recent.len() > OVERLAP {
            self.recent.pop_front();
        }
        Ok(())
    }

    fn write_cursor(&self) -> Result<()> {
        let Some(cursor) = self.cursor else { return Ok(()) };
        let failed = || format!("cannot write {}", self.file.display());
        let mut name = self.file.as_os_str().to_owned();
        name.push(".new");
        let new = PathBuf::from(name);
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&new)
            .context(failed)?;
        file.write_all(format!("{cursor}\n").as_bytes()).context(failed)?;
        file.sync_all().context(failed)?;
        std::fs::rename(&new, self.file).context(failed)
    }
}

/// What is wrong with the log behind what was shipped: it was changed, or rightly trimmed before it was shipped.
fn wrong(source: &Source, cursor: Option<Head>, fault: &Fault) -> Result<Failure> {
    let shipped = cursor.map_or(0, |cursor| cursor.seq);
    let trimmed = source.bounds()?.trimmed.map_or(0, |trimmed| trimmed.seq);
    if trimmed <= shipped || !matches!(fault, Fault::KnownGone { .. } | Fault::LeftOut { .. }) {
        return Ok(broken(fault));
    }
    if let Err(fault) = source.verify(&[])? {
        return Ok(broken(&fault));
    }
    Ok(Failure::new(format!(
        "records {} to {trimmed} were trimmed before they were shipped from here, and cannot be shipped any more",
        shipped + 1
    ))
    .kind(Kind::Failed)
    .advice("Find out why it was not shipped for so long. Move the cursor away to go on with the first record that is there."))
}

fn read_cursor(path: &Path) -> Result<Option<Head>> {
    match std::fs::read_to_string(path) {
        Ok(text) => text.trim().parse().map(Some).map_err(|why| {
            Failure::new(format!("{}: {why}", path.display()))
                .kind(Kind::Unreadable)
                .advice("Move it away to ship all records anew.")
        }),
        Err(why) if why.kind() == ErrorKind::NotFound => Ok(None),
        Err(why) => Err(Failure::new(format!("cannot read {}: {why}", path.display())).kind(Kind::Unreadable)),
    }
}
