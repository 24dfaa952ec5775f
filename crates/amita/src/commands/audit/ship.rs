//! `amita audit ship`: each record at least once to a syslog server.
//!
//! The cursor is the number and hash of the last record that has arrived. Syslog acknowledges nothing; but who is told that
//! nothing more comes, and has read all of it, ends the connection in its turn. So a connection is made for what there is to ship,
//! ended from here, and the cursor is written when the receiver has ended it as well: what it had not read before it broke is
//! shipped again, by this process or the next. As a record that is known from before, the cursor also shows when the log was
//! changed: then nothing more is shipped, and the command fails. So it does when records were trimmed that it had not shipped:
//! they are nowhere then. A follower looks at it each time: a log that was cut off, or began anew, has nothing behind the cursor.

use super::source::Source;
use super::syslog::{Receiver, Way, message};
use super::{Which, broken};
use crate::cli::Endpoints;
use amita_audit::{Fault, Head, Line, Verifier};
use amita_identity::Actor;
use amita_terminal::error::{Context, Failure, Kind, Result};
use amita_terminal::{interrupt, say_line};
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often a follower looks for new records, and tries again what did not work.
const PAUSE: Duration = Duration::from_secs(1);
/// How often it looks whether it is told to end.
const LOOK: Duration = Duration::from_millis(100);
/// So many records go over one connection, and are shipped again when it breaks.
const BATCH: u64 = 1000;

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
        host: Actor::here().whence.host,
        under_way: 0,
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
    /// The last record that has arrived.
    cursor: Option<Head>,
    file: &'a Path,
    receiver: &'a Receiver,
    way: Option<Way>,
    /// There was no cursor, and nothing was shipped yet.
    is_new: bool,
    host: String,
    /// Records that were sent on this way.
    under_way: u64,
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

    /// Is the record that was shipped last where it was, or rightly trimmed, and does the log go so far? If not, what is wrong.
    fn look_back(&self, source: &Source) -> Result<()> {
        let Some(cursor) = self.cursor.filter(|_| !self.is_new) else {
            return Ok(());
        };
        let bounds = source.bounds()?;
        let is_it = |text: String| Line::parse(&text).is_ok_and(|line| line.is_sound() && line.head() == cursor);
        let stands = match source.record(cursor.seq)? {
            Some(text) => is_it(text),
            None => bounds.trimmed == Some(cursor),
        };
        if stands && bounds.head.is_some_and(|head| head.seq >= cursor.seq) {
            return Ok(());
        }
        // It may have been trimmed between two looks.
        match source.verify(&[cursor])? {
            Ok(_) => Ok(()),
            Err(fault) => Err(wrong(source, Some(cursor), &fault)?),
        }
    }

    /// Ships what is there.
    fn round(&mut self, source: &Source) -> Result<()> {
        // What was sent before and has not arrived is sent again.
        (self.way, self.under_way) = (None, 0);
        self.look_back(source)?;
        let before = self.cursor;
        let mut verifier = match before {
            Some(cursor) => Verifier::behind(cursor),
            None => Verifier::new(None),
        };
        let (mut found, mut sent) = (None, before);
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
            self.send(&line)?;
            sent = Some(line.head());
            if self.under_way == BATCH {
                self.arrive(sent)
            } else {
                Ok(())
            }
        });
        // What comes before a fault is evidence, and is shipped.
        let arrived = match &outcome {
            Err(why) if why.kind == Kind::Unreachable => Ok(()),
            _ => self.arrive(sent),
        };
        match (outcome, found) {
            // Trimmed between the look at where it begins and the first record: it begins later now.
            (_, Some(_)) if self.is_new && source.bounds()?.trimmed != before => {
                self.cursor = None;
                self.check(source)?;
                self.round(source)
            }
            (_, Some(fault)) => Err(wrong(source, sent, &fault)?),
            (Err(why), None) if why.kind == Kind::Interrupted => Ok(()),
            (outcome, None) => outcome.and(arrived),
        }
    }

    fn send(&mut self, line: &Line) -> Result<()> {
        if self.way.is_none() {
            self.way = Some(Way::open(self.receiver).map_err(|why| self.away(&why))?);
        }
        let message = message(line, &self.host, std::process::id());
        let sent = self.way.as_mut().map_or(Ok(()), |way| way.send(&message));
        sent.map_err(|why| self.away(&why))?;
        self.under_way += 1;
        Ok(())
    }

    /// Waits until the receiver has all that was sent, up to this record, and writes the cursor.
    fn arrive(&mut self, last: Option<Head>) -> Result<()> {
        let Some(way) = self.way.take() else { return Ok(()) };
        way.finish().map_err(|why| self.away(&why))?;
        self.is_new = false;
        self.shipped += std::mem::take(&mut self.under_way);
        self.cursor = last;
        self.write_cursor()
    }

    fn away(&self, why: &std::io::Error) -> Failure {
        Failure::new(format!("{} takes no records: {why}", self.receiver)).kind(Kind::Unreachable)
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
        return Ok(match fault {
            Fault::CutOff { .. } | Fault::Forged { .. } => broken(fault).advice(
                "If the metadata was lost and rebuilt (`amita recover`), the log began anew: move the cursor away to ship that one. If \
                 not, what was shipped tells what the log said: find out who could write there, and since when.",
            ),
            _ => broken(fault),
        });
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

#[cfg(test)]
mod tests {
    use super::*;
    use amita_identity::{Authority, Clock};
    use amita_types::ClusterId;
    use std::io::Read;
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::thread::JoinHandle;

    struct World {
        scratch: tempfile::TempDir,
        authority: Authority,
        listener: TcpListener,
    }

    impl World {
        fn new() -> World {
            let scratch = tempfile::tempdir().unwrap();
            let folder = scratch.path().join("ca");
            let authority = Authority::create(&folder, ClusterId(7), Clock::system()).unwrap();
            World {
                scratch,
                authority,
                listener: TcpListener::bind("127.0.0.1:0").unwrap(),
            }
        }

        fn act(&self) {
            self.authority.rotate(Duration::ZERO).unwrap();
            self.authority.finish(true).unwrap();
        }

        /// As a process of its own does it once; how many were shipped.
        fn ship(&self) -> Result<u64> {
            let file = self.scratch.path().join("cursor");
            let address: SocketAddr = self.listener.local_addr().unwrap();
            let mut shipper = Shipper {
                cursor: read_cursor(&file)?,
                file: &file,
                receiver: &Receiver::Tcp(address.to_string()),
                way: None,
                is_new: false,
                host: "h1".to_owned(),
                under_way: 0,
                shipped: 0,
            };
            let source = Source::Authority(self.authority.clone());
            shipper.check(&source)?;
            shipper.round(&source)?;
            Ok(shipper.shipped)
        }

        fn serve<T: Send + 'static>(&self, each: impl FnOnce(TcpStream) -> T + Send + 'static) -> JoinHandle<T> {
            let listener = self.listener.try_clone().unwrap();
            std::thread::spawn(move || each(listener.accept().unwrap().0))
        }
    }

    fn read_all(mut stream: TcpStream) -> usize {
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text.matches(" amita-audit ").count()
    }

    /// A receiver that takes what it is sent and dies has none of it: the next process sends it again.
    #[test]
    fn what_a_receiver_has_not_read_is_shipped_again_by_the_next_process() {
        let world = World::new();
        world.act();
        let dying = world.serve(|stream| {
            // Closed with something unread, it is reset.
            stream.peek(&mut [0; 1]).unwrap();
        });
        let failed = world.ship().unwrap_err();
        assert_eq!(failed.kind, Kind::Unreachable, "{failed}");
        dying.join().unwrap();
        let reading = world.serve(read_all);
        assert_eq!(world.ship().unwrap(), 3);
        assert_eq!(reading.join().unwrap(), 3);
        // What has arrived is not sent again, and nobody is called for nothing.
        assert_eq!(world.ship().unwrap(), 0);
        world.act();
        let reading = world.serve(read_all);
        assert_eq!(world.ship().unwrap(), 2);
        assert_eq!(reading.join().unwrap(), 2);
    }

    /// A follower has nothing to ship of a log that does not go as far as it was, and must not take that for peace.
    #[test]
    fn a_follower_sees_that_the_log_was_cut_off_or_began_anew() {
        let world = World::new();
        world.act();
        let log = world.authority.log().unwrap().lines;
        let source = Source::Authority(world.authority.clone());
        let (audit, head) = (
            world.authority.folder().join("audit"),
            world.authority.folder().join("audit.head"),
        );
        let file = world.scratch.path().join("cursor");
        let receiver = Receiver::Tcp(world.listener.local_addr().unwrap().to_string());
        let mut shipper = Shipper {
            cursor: None,
            file: &file,
            receiver: &receiver,
            way: None,
            is_new: false,
            host: "h1".to_owned(),
            under_way: 0,
            shipped: 0,
        };
        let reading = world.serve(read_all);
        shipper.check(&source).unwrap();
        shipper.round(&source).unwrap();
        assert_eq!(reading.join().unwrap(), 3);
        shipper.round(&source).unwrap();
        let put = |lines: &[String]| {
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            std::fs::write(&audit, text).unwrap();
            let last = Line::parse(lines.last().unwrap()).unwrap().head();
            std::fs::write(&head, format!("{last}\n")).unwrap();
        };
        put(&log[..1]);
        let failed = shipper.round(&source).unwrap_err();
        assert_eq!(failed.kind, Kind::Failed);
        assert!(failed.what.contains("cut off"), "{failed}");
        // Another story, as long as the first.
        let mut other = vec![log[0].clone()];
        while other.len() < log.len() {
            let before = Line::parse(other.last().unwrap()).unwrap();
            let draft = amita_audit::Draft::new(
                before.record().who.clone(),
                before.record().whence.clone(),
                "cert.issue",
                "eve",
                amita_audit::Outcome::Done,
            );
            other.push(draft.after(Some(&before.head())).text());
        }
        put(&other);
        let failed = shipper.round(&source).unwrap_err();
        assert_eq!(failed.kind, Kind::Failed);
        assert!(failed.what.contains("is not the one that was known"), "{failed}");
        put(&log);
        shipper.round(&source).unwrap();
    }

    /// The log was trimmed before it was shipped, or changed where it was.
    #[test]
    fn a_cursor_before_the_beginning_or_of_another_log_ends_it() {
        let world = World::new();
        world.act();
        let file = world.scratch.path().join("cursor");
        let log = world.authority.log().unwrap();
        let second = Line::parse(&log.lines[1]).unwrap();
        let forged = Head {
            seq: second.head().seq,
            hash: second.record().prev,
        };
        std::fs::write(&file, format!("{forged}\n")).unwrap();
        let failed = world.ship().unwrap_err();
        assert!(failed.what.contains("is not the one that was known"), "{failed}");
        // The first two are gone, and nobody says so.
        std::fs::write(&file, format!("{}\n", Line::parse(&log.lines[0]).unwrap().head())).unwrap();
        let text: String = log.lines[2..].iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(world.authority.folder().join("audit"), text).unwrap();
        let failed = world.ship().unwrap_err();
        assert_eq!(failed.kind, Kind::Failed);
        assert!(failed.what.contains("no record of the log says"), "{failed}");
        // The last record says so.
        let lines = &log.lines[1..];
        let gone = Line::parse(&log.lines[1]).unwrap().head();
        let who = Actor::here().who;
        let told = amita_audit::Draft::new(
            who,
            Actor::here().whence,
            amita_audit::TRIM,
            &gone.to_string(),
            amita_audit::Outcome::Done,
        );
        let told = told.after(Some(&Line::parse(lines.last().unwrap()).unwrap().head()));
        let text: String = lines[1..].iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(
            world.authority.folder().join("audit"),
            format!("{text}{}\n", told.text()),
        )
        .unwrap();
        let failed = world.ship().unwrap_err();
        assert_eq!(failed.kind, Kind::Failed);
        assert!(
            failed
                .what
                .contains("records 2 to 2 were trimmed before they were shipped"),
            "{failed}"
        );
    }
}
