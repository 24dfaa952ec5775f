//! The data of a volume, for commands that copy: by the client library, as whoever may.

mod chunks;

use crate::admin::Admin;
use crate::cli::Endpoints;
use crate::commands::join::Described as _;
use amita_client::{ChangedSearch, Client, Config, Done, Error, Extent, OpenError, Protection, Queue, Volume};
use amita_identity::{Clock, Live, Name, Role};
use amita_terminal::error::{Failure, Kind, Result};
use amita_types::io::IoError;
use amita_types::map;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// The longest read or write.
pub const PIECE_BYTES: u64 = amita_client::MAX_READ_WRITE_BYTES as u64;
/// Blocks are what is zero or not.
pub const BLOCK_BYTES: usize = amita_types::BLOCK_BYTES as usize;
/// Requests under way at most: scattered blocks are brought one by one, and so many of them keep a gateway's cores at work.
const MOST_REQUESTS: usize = 128;
/// Bytes under way at most, of reads and of writes: enough for any network, and what the client's memory allows reads to bring at one time.
const MOST_BYTES: u64 = 16 * PIECE_BYTES;
/// How often it is looked whether the command is to end.
const LOOK: Duration = Duration::from_millis(200);
/// A node that owns the volume and lives may take so long to answer: no command is a reason to take a volume from its clients. Three
/// usual leases.
pub const OWNER_PATIENCE: Duration = Duration::from_secs(15);
/// Memory for writes is free again within this, or nothing moves any more.
const PATIENCE: Duration = Duration::from_secs(120);

/// Why a gateway that owns an encrypted volume may refuse to tell another one what is in it.
const ENCRYPTED: &str = "If the volume is encrypted, and another gateway owns it: what is in it goes over links that nobody can read, and over no others. \
                         Start all nodes with --links secret, and say --links secret here as well; or do it when nobody uses the volume.";

/// The rest of a volume is made zeros in steps of this: each that ends is progress.
const CLEAR_BYTES: u64 = 1 << 30;

/// As whom data is read and written.
#[derive(Debug, clap::Args)]
pub struct Access {
    /// The folder of the identity that reads and writes the data: a client's, which goes through nodes, or a gateway's. Without it
    /// --identity is tried, and where nobody has an identity none is needed
    #[arg(long, env = "AMITA_CLIENT_IDENTITY", value_name = "DIR")]
    pub client_identity: Option<PathBuf>,
    /// Where nodes serve NBD, for a client's identity: as HOST:PORT, once for each or divided by commas. Without it those that the
    /// identity's file `nodes` names, or all that live
    #[arg(long = "nodes", env = "AMITA_NODES", value_name = "HOST:PORT", value_delimiter = ',')]
    pub nodes: Vec<String>,
    /// What protects the links of a gateway's identity: as nodes have it (`amita serve --links`), or they are not reached [default: auth]
    #[arg(long, env = "AMITA_LINKS", value_name = "auth|secret")]
    pub links: Option<Protection>,
    #[command(flatten)]
    pub keys: super::key::FileArgument,
}

/// The settings of the client library, and who it is.
pub struct Way {
    config: Config,
    /// Of which role and name, where that is proved.
    pub name: Option<Name>,
    bounds: Bounds,
}

/// What ends waiting for a volume beside that the command is to end: a node that copies for others waits for nothing without end.
#[derive(Clone, Default)]
struct Bounds {
    /// The longest wait in which no request ends.
    stall: Option<Duration>,
    /// For so long has been waited since one has ended.
    waited: Duration,
    /// Is the work still wanted?
    wanted: Option<Rc<dyn Fn() -> Result<()>>>,
}

impl Bounds {
    fn check(&self) -> Result<()> {
        self.wanted.as_ref().map_or(Ok(()), |wanted| wanted())
    }

    /// It was waited for so long. Has any request ended by that?
    fn waited(&mut self, time: Duration, any: bool) -> Result<()> {
        self.waited = if any { Duration::ZERO } else { self.waited + time };
        match self.stall {
            Some(stall) if self.waited >= stall => {
                let what = format!(
                    "it has stalled: the volume has answered nothing for {} s",
                    stall.as_secs()
                );
                let advice = "Too few of its copies may be there (`amita status`); do it again when they are.";
                Err(Failure::new(what).kind(Kind::Unreachable).advice(advice))
            }
            _ => Ok(()),
        }
    }
}

impl Access {
    /// Looks at what was given, before anything is made.
    ///
    /// # Errors
    /// An identity that may not use data, or none where one is needed.
    pub fn way(&self, endpoints: &Endpoints, admin: &Admin) -> Result<Way> {
        if endpoints.lent().is_some() {
            return Err(
                Failure::new("by a command the data of volumes is read and written where it is given")
                    .kind(Kind::Usage)
                    .advice("Give the command with --metadata, and with an identity that may use data."),
            );
        }
        let folder = self
            .client_identity
            .clone()
            .or_else(|| endpoints.identity().map(PathBuf::from));
        let mut config = Config::new(endpoints.list()?);
        config.insecure_network = endpoints.insecure_network();
        config.owner_patience = Some(OWNER_PATIENCE);
        config.identity.clone_from(&folder);
        config.nodes.clone_from(&self.nodes);
        config.links = self.links.unwrap_or_default();
        config.volume_keys = self.keys.given(endpoints).map(|file| file.path().to_owned());
        let name = match &folder {
            Some(folder) => Some(Live::open(folder, Clock::system()).described()?.name()),
            None => None,
        };
        let may = |name: &Name| matches!(name.role(), Role::Client | Role::Gateway);
        if let Some(name) = name.as_ref().filter(|name| !may(name)) {
            return Err(Failure::new(format!(
                "{name} may not read or write the data of volumes: operators say what is served to whom, and no more"
            ))
            .kind(Kind::Usage)
            .advice(
                "Name a client's identity, or a gateway's: --client-identity DIR, AMITA_CLIENT_IDENTITY. `amita client create` \
                 makes one.",
            ));
        }
        let is_client = name.as_ref().is_some_and(|name| name.role() == Role::Client);
        if !is_client {
            config.nodes.clear();
        } else if config.nodes.is_empty() && !folder.is_some_and(|folder| folder.join("nodes").exists()) {
            let nodes = admin.status()?.nodes.into_iter();
            config.nodes = nodes
                .filter(|found| found.alive)
                .filter_map(|found| found.node.nbd)
                .collect();
        }
        Ok(Way::of(config, name))
    }

    /// The same for what owns the volume meanwhile, or asks what no client is told. `what` needs it, `why`.
    ///
    /// # Errors
    /// As [`Access::way`], and a client's identity.
    pub fn way_of_gateway(&self, endpoints: &Endpoints, admin: &Admin, what: &str, why: &str) -> Result<Way> {
        let way = self.way(endpoints, admin)?;
        if way.client().is_none() {
            return Ok(way);
        }
        let failure = Failure::new(format!("{what} by a gateway's identity, and not by a client's: {why}"));
        Err(failure
            .kind(Kind::Usage)
            .advice("Name a gateway's: --client-identity DIR."))
    }
}

impl Way {
    /// By these settings.
    pub fn of(config: Config, name: Option<Name>) -> Way {
        Way {
            config,
            name,
            bounds: Bounds::default(),
        }
    }

    /// What is opened ends with an error where no request has ended for so long.
    #[must_use]
    pub fn stalling(mut self, stall: Duration) -> Way {
        self.bounds.stall = Some(stall);
        self
    }

    /// It ends with an error as well where that says one.
    #[must_use]
    pub fn wanted(mut self, wanted: impl Fn() -> Result<()> + 'static) -> Way {
        self.bounds.wanted = Some(Rc::new(wanted));
        self
    }

    /// The name of the client, if it goes through nodes.
    pub fn client(&self) -> Option<&str> {
        let name = self.name.as_ref().filter(|name| name.role() == Role::Client);
        name.map(Name::name)
    }

    /// Opens a volume.
    ///
    /// # Errors
    /// The cluster cannot be joined, or the volume is not to be had.
    pub fn open(&self, volume: &str) -> Result<Data> {
        self.open_by(|client| client.open(volume))
    }

    /// Opens a volume, or a snapshot of it, to learn what was changed since an older snapshot.
    ///
    /// # Errors
    /// As [`Way::open`].
    pub fn open_since(&self, volume: &str, snapshot: &str) -> Result<Data> {
        self.open_by(|client| client.open_since(volume, snapshot))
    }

    fn open_by(&self, open: impl FnOnce(&Client) -> std::result::Result<Volume, Error>) -> Result<Data> {
        let client = Client::connect(&self.config).map_err(|why| described(&why))?;
        let volume = open(&client).map_err(|why| described(&why))?;
        // That may have taken a while.
        amita_terminal::interrupt::check()?;
        self.bounds.check()?;
        let queue = client.queue(MOST_REQUESTS).map_err(|why| described(&why))?;
        let may_be_refused = self.config.volume_keys.is_some() && self.config.links != Protection::Secret;
        Ok(Data {
            queue,
            volume,
            under_way: UnderWay {
                hint: may_be_refused.then_some(ENCRYPTED),
                ..UnderWay::default()
            },
            done: Vec::new(),
            known: ChangedSearch::default(),
            bounds: self.bounds.clone(),
            client,
        })
    }
}

fn described(why: &Error) -> Failure {
    let failure = Failure::new(why.to_string());
    match why {
        Error::Join(_) | Error::OpenTimeout { .. } => failure.kind(Kind::Unreachable),
        Error::Setting { .. } => failure.kind(Kind::Usage),
        Error::Open {
            why: OpenError::Unavailable(_),
            ..
        } => failure.kind(Kind::Unreachable),
        Error::Open { .. } => failure.kind(Kind::Conflict).advice(
            "Whoever uses it is to let go of it first. A client may use what is exported to it (`amita nbd export VOLUME --client \
             NAME`), or what its certificate grants.",
        ),
        _ => failure,
    }
}

/// An open volume: requests end in any order, and are handed out in the order in which they were begun.
pub struct Data {
    // Before the client: it goes first.
    queue: Queue,
    volume: Volume,
    under_way: UnderWay,
    done: Vec<Done>,
    /// Of the chunks, where it is compared with a snapshot.
    known: ChangedSearch,
    bounds: Bounds,
    client: Client,
}

/// The requests under way, in the order in which they were begun.
#[derive(Default)]
struct UnderWay {
    requests: VecDeque<Begun>,
    /// Of all of them.
    bytes: u64,
    /// The lowest offset of those that have failed.
    failed: Option<u64>,
    /// What to do where there is nobody who answers.
    hint: Option<&'static str>,
}

/// A request under way.
struct Begun {
    offset: u64,
    /// What it brings or takes there: memory is held for them.
    bytes: u64,
    /// What came of it, once it has ended.
    done: Option<Done>,
}

impl UnderWay {
    fn begin(&mut self, offset: u64, bytes: u64) {
        self.bytes += bytes;
        self.requests.push_back(Begun {
            offset,
            bytes,
            done: None,
        });
    }

    fn end(&mut self, done: Done) {
        let mut waiting = self.requests.iter_mut();
        if let Some(begun) = waiting.find(|begun| begun.offset == done.tag && begun.done.is_none()) {
            begun.done = Some(done);
        }
    }

    fn has_room(&self) -> bool {
        self.requests.len() < MOST_REQUESTS && self.bytes < MOST_BYTES
    }

    fn is_oldest_done(&self) -> Option<bool> {
        self.requests.front().map(|begun| begun.done.is_some())
    }

    /// Takes the oldest one out, if it has ended, however it did.
    fn pop_done(&mut self) -> Option<(u64, Done)> {
        if self.is_oldest_done() != Some(true) {
            return None;
        }
        let Begun { offset, bytes, done } = self.requests.pop_front()?;
        self.bytes -= bytes;
        Some((offset, done?))
    }

    /// The same; the failure, if it has failed.
    fn pop(&mut self) -> Result<Option<(u64, Done)>> {
        let Some((offset, done)) = self.pop_done() else {
            return Ok(None);
        };
        if let Err(why) = done.result {
            self.failed = Some(self.failed.map_or(offset, |failed| failed.min(offset)));
            let hint = self.hint.filter(|_| why == IoError::Unavailable).unwrap_or_default();
            return Err(Failure::new(format!("the volume at byte {offset}: {why}")).advice(hint));
        }
        Ok(Some((offset, done)))
    }

    fn place(&self) -> Option<u64> {
        let oldest = self.requests.front().map(|begun| begun.offset);
        oldest.into_iter().chain(self.failed).min()
    }
}

/// Does who has opened this have the volume alone, with nobody that had it since it was read as `before`? The opening has raised its
/// generation, and it alone: else others may write still. `now` is read behind the opening.
pub fn is_alone(data: &Data, before: &map::Volume, now: &map::Volume) -> bool {
    now.id == before.id && Some(now.generation) == before.generation.next() && data.size_bytes() == now.size_bytes
}

/// It has not ([`is_alone`]). `undone`: what was not done yet.
pub fn not_alone(volume: &str, undone: &str) -> Failure {
    let what = format!(
        "volume {volume} was changed, or others opened it, meanwhile, or the metadata did not answer the opening at once"
    );
    let advice = format!("Nothing {undone}: do it again when nobody uses it.");
    Failure::new(what).kind(Kind::Conflict).advice(advice)
}

/// What an extent has at a place.
pub enum Content<'a> {
    /// So many zeros.
    Zeros(u64),
    /// These bytes.
    Bytes(&'a mut Vec<u8>),
}

impl Data {
    pub fn size_bytes(&self) -> u64 {
        self.volume.size_bytes()
    }

    pub fn chunk_bytes(&self) -> u64 {
        self.volume.chunk_bytes().into()
    }

    /// Starts to ask what was changed in the chunk that begins there.
    ///
    /// # Errors
    /// The client has ended.
    pub fn changed(&mut self, offset: u64) -> Result<()> {
        let started = self.queue.changed(&self.volume, offset, offset);
        started.map_err(|why| described(&why))?;
        self.under_way.begin(offset, 0);
        Ok(())
    }

    /// Starts to ask what of the chunk that begins there has data.
    ///
    /// # Errors
    /// The client has ended.
    pub fn allocated(&mut self, offset: u64) -> Result<()> {
        let started = self.queue.allocated(&self.volume, offset, offset);
        started.map_err(|why| described(&why))?;
        self.under_way.begin(offset, 0);
        Ok(())
    }

    /// What was changed there, or has data, as the answer says.
    pub fn extents(&self, offset: u64, answer: &Done) -> impl Iterator<Item = Extent> + use<> {
        self.volume.extents(offset, &answer.payload)
    }

    /// Is nothing under way?
    pub fn is_idle(&self) -> bool {
        self.under_way.requests.is_empty()
    }

    /// Is there room for another request?
    pub fn has_room(&self) -> bool {
        self.under_way.has_room()
    }

    /// Starts to read a piece.
    ///
    /// # Errors
    /// The client has ended.
    pub fn read(&mut self, offset: u64, bytes: u64) -> Result<()> {
        let started = self.queue.read(&self.volume, offset, bytes as u32, offset);
        started.map_err(|why| described(&why))?;
        self.under_way.begin(offset, bytes);
        Ok(())
    }

    /// Reads what lies between two bytes, and hands it out in order, as pieces of any length.
    ///
    /// # Errors
    /// It cannot be read; the command is to end; or what `take` says.
    pub fn each_piece(&mut self, from: u64, end: u64, take: impl FnMut(u64, &mut Vec<u8>) -> Result<()>) -> Result<()> {
        self.each_piece_of(&[(from, end)], take)
    }

    /// The same of several ranges, each from a byte to another one. The next is asked for while the one before is brought: so scattered
    /// blocks wait for each other no more than the pieces of one range do.
    ///
    /// # Errors
    /// As [`Data::each_piece`].
    pub fn each_piece_of(
        &mut self,
        ranges: &[(u64, u64)],
        mut take: impl FnMut(u64, &mut Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        let mut ahead = ranges.iter().copied().filter(|(from, end)| from < end);
        let mut asks = ahead.next();
        let mut bytes = Vec::new();
        loop {
            amita_terminal::interrupt::check()?;
            while let Some((from, end)) = asks.filter(|_| self.has_room()) {
                let length = PIECE_BYTES.min(end - from);
                self.read(from, length)?;
                asks = match from + length < end {
                    true => Some((from + length, end)),
                    false => ahead.next(),
                };
            }
            let Some((offset, done)) = self.next()? else {
                return Ok(());
            };
            bytes.resize(done.payload.len(), 0);
            done.payload.copy_to(&mut bytes);
            drop(done);
            take(offset, &mut bytes)?;
        }
    }

    /// Reads the data of extents and hands it on, piece by piece, with the holes between: all of it in the order of its places.
    ///
    /// # Errors
    /// As [`Data::each_piece`].
    pub fn each_extent(
        &mut self,
        extents: &[Extent],
        mut take: impl FnMut(u64, Content<'_>) -> Result<()>,
    ) -> Result<()> {
        let data = extents.iter().filter(|extent| !extent.is_zero);
        let ranges: Vec<(u64, u64)> = data
            .map(|extent| (extent.offset, extent.offset + extent.length))
            .collect();
        let mut holes = extents.iter().filter(|extent| extent.is_zero).peekable();
        self.each_piece_of(&ranges, |offset, bytes| {
            while let Some(hole) = holes.next_if(|hole| hole.offset < offset) {
                take(hole.offset, Content::Zeros(hole.length))?;
            }
            take(offset, Content::Bytes(bytes))
        })?;
        holes.try_for_each(|hole| take(hole.offset, Content::Zeros(hole.length)))
    }

    /// Starts to write bytes, and zeros up to the end of their last block. Waits where there is no room.
    ///
    /// # Errors
    /// What an earlier request has ended with; or the command is to end.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        let length = bytes.len().next_multiple_of(BLOCK_BYTES);
        let until = Instant::now() + PATIENCE;
        let mut buffer = loop {
            while self.under_way.is_oldest_done() == Some(true) || !self.has_room() {
                self.next()?;
            }
            if let Some(buffer) = self.queue.buffer(length) {
                break buffer;
            }
            if Instant::now() > until {
                return Err(Failure::new(format!(
                    "there is no memory for {length} bytes to be written"
                )));
            }
            self.take(LOOK)?;
        };
        buffer[..bytes.len()].copy_from_slice(bytes);
        buffer[bytes.len()..].fill(0);
        let started = self.queue.write(&self.volume, offset, buffer.freeze(), offset);
        started.map_err(|why| described(&why))?;
        self.under_way.begin(offset, length as u64);
        Ok(())
    }

    /// Starts to have whole blocks read as zeros, and take no space. Waits where there is no room.
    ///
    /// # Errors
    /// What an earlier request has ended with; or the command is to end.
    pub fn write_zeroes(&mut self, offset: u64, bytes: u64) -> Result<()> {
        while !self.has_room() {
            self.next()?;
        }
        let started = self.queue.write_zeroes(&self.volume, offset, bytes, offset);
        started.map_err(|why| described(&why))?;
        // A large one is cut into many.
        self.under_way.begin(offset, bytes.min(PIECE_BYTES));
        Ok(())
    }

    /// Has the rest of the volume from here on read as zeros, and waits for it.
    ///
    /// # Errors
    /// What it has ended with; or the command is to end.
    pub fn clear(&mut self, offset: u64) -> Result<()> {
        let (mut at, end) = (offset, self.size_bytes());
        while at < end {
            while !self.has_room() {
                self.next()?;
            }
            let bytes = CLEAR_BYTES.min(end - at);
            // All of them count as begun at the first byte: that zeros are there says nothing of how much of an image is.
            let started = self.queue.write_zeroes(&self.volume, at, bytes, offset);
            started.map_err(|why| described(&why))?;
            self.under_way.begin(offset, bytes.min(PIECE_BYTES));
            at += bytes;
        }
        self.finish()
    }

    /// Waits for the oldest request under way; none: there is none.
    ///
    /// # Errors
    /// What it has ended with; or the command is to end.
    pub fn next(&mut self) -> Result<Option<(u64, Done)>> {
        while self.under_way.is_oldest_done() == Some(false) {
            self.take(LOOK)?;
        }
        self.under_way.pop()
    }

    /// Waits until nothing is under way.
    ///
    /// # Errors
    /// As [`Data::next`].
    pub fn finish(&mut self) -> Result<()> {
        while self.next()?.is_some() {}
        Ok(())
    }

    /// Where the oldest request begins that is under way or has failed: everything before is done.
    pub fn place(&self) -> Option<u64> {
        self.under_way.place()
    }

    /// Opens another volume, or snapshot, by the same gateway, which has joined the cluster already: to be read, or (`since`) to learn what was
    /// changed since that snapshot.
    ///
    /// # Errors
    /// As [`Way::open`]; that gateway has left then.
    pub fn reopen(self, volume: &str, since: Option<&str>) -> Result<Data> {
        let Data {
            queue,
            volume: before,
            bounds,
            client,
            ..
        } = self;
        drop(queue);
        // It may have been lost by now: then nothing of it is open.
        let _ = client.close_volume(&before);
        let opened = match since {
            Some(since) => client.open_since(volume, since),
            None => client.open(volume),
        };
        Data::of(client, bounds, opened)
    }

    /// Opens another volume by the same gateway, which goes on owning this one as well.
    ///
    /// # Errors
    /// As [`Way::open`]; that gateway has left then.
    pub fn beside(self, volume: &str) -> Result<Data> {
        let Data {
            queue, bounds, client, ..
        } = self;
        drop(queue);
        let opened = client.open(volume);
        Data::of(client, bounds, opened)
    }

    fn of(client: Client, bounds: Bounds, opened: std::result::Result<Volume, Error>) -> Result<Data> {
        let opened = opened.and_then(|volume| Ok((client.queue(MOST_REQUESTS)?, volume)));
        match opened {
            Ok((queue, volume)) => Ok(Data {
                queue,
                volume,
                under_way: UnderWay::default(),
                done: Vec::new(),
                known: ChangedSearch::default(),
                bounds,
                client,
            }),
            Err(why) => {
                client.close();
                Err(described(&why))
            }
        }
    }

    /// Leaves the cluster.
    pub fn close(self) {
        drop(self.queue);
        self.client.close();
    }

    fn take(&mut self, limit: Duration) -> Result<()> {
        amita_terminal::interrupt::check()?;
        self.bounds.check()?;
        let begun = Instant::now();
        self.queue.wait(limit, &mut self.done);
        self.bounds.waited(begun.elapsed(), !self.done.is_empty())?;
        for done in self.done.drain(..) {
            self.under_way.end(done);
        }
        Ok(())
    }
}

/// The runs of units of `unit` bytes that are not all zeros: each as where it begins, and where it ends.
pub fn runs(bytes: &[u8], unit: usize) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (index, block) in bytes.chunks(unit).enumerate() {
        if is_zero(block) {
            continue;
        }
        let (start, end) = (index * unit, index * unit + block.len());
        match runs.last_mut() {
            Some(last) if last.1 == start => last.1 = end,
            _ => runs.push((start, end)),
        }
    }
    runs
}

fn is_zero(block: &[u8]) -> bool {
    // Each byte is as the one before it, and the first one is zero: one comparison of memory.
    block.first().is_none_or(|first| *first == 0)
        && block[..block.len().saturating_sub(1)] == block[block.len().min(1)..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use amita_client::IoError;

    fn ended(offset: u64, result: std::result::Result<(), IoError>) -> Done {
        Done {
            tag: offset,
            result,
            payload: amita_client::Payload::default(),
        }
    }

    #[test]
    fn what_has_failed_is_not_passed_over() {
        let mut under_way = UnderWay::default();
        for offset in [0, 10, 20, 30] {
            under_way.begin(offset, 1);
        }
        under_way.end(ended(0, Ok(())));
        under_way.end(ended(20, Ok(())));
        assert_eq!(under_way.pop().unwrap().map(|(offset, _)| offset), Some(0));
        assert!(under_way.pop().unwrap().is_none(), "the next one has not ended");
        assert_eq!(under_way.place(), Some(10));
        under_way.end(ended(10, Err(IoError::NoSpace)));
        assert!(under_way.pop().is_err());
        // An import goes on there, and not behind it.
        assert_eq!(under_way.place(), Some(10));
        assert_eq!(under_way.pop().unwrap().map(|(offset, _)| offset), Some(20));
        under_way.end(ended(30, Ok(())));
        under_way.pop().unwrap();
        assert_eq!(under_way.place(), Some(10));
    }

    #[test]
    fn there_is_room_by_number_and_by_bytes() {
        let mut under_way = UnderWay::default();
        for offset in 0..MOST_REQUESTS as u64 {
            assert!(under_way.has_room());
            under_way.begin(offset, 4096);
        }
        assert!(!under_way.has_room());
        let mut under_way = UnderWay::default();
        for offset in 0..MOST_BYTES / PIECE_BYTES {
            assert!(under_way.has_room());
            under_way.begin(offset, PIECE_BYTES);
        }
        assert!(!under_way.has_room());
        under_way.end(ended(0, Ok(())));
        under_way.pop().unwrap();
        assert!(under_way.has_room());
    }

    #[test]
    fn requests_of_one_place_are_done_when_all_are() {
        let mut under_way = UnderWay::default();
        for _ in 0..2 {
            under_way.begin(10, 1);
        }
        under_way.end(ended(10, Ok(())));
        assert_eq!(under_way.pop().unwrap().map(|(offset, _)| offset), Some(10));
        assert_eq!((under_way.place(), under_way.is_oldest_done()), (Some(10), Some(false)));
        under_way.end(ended(10, Err(IoError::NoSpace)));
        assert!(under_way.pop().is_err());
        assert_eq!(under_way.place(), Some(10));
    }

    #[test]
    fn who_waits_without_progress_is_told_so_and_who_is_not_wanted_ends() {
        let second = Duration::from_secs(1);
        let mut bounds = Bounds {
            stall: Some(second * 3),
            ..Bounds::default()
        };
        for any in [false, false, true, false, false] {
            bounds.waited(second, any).unwrap();
        }
        let failure = bounds.waited(second, false).unwrap_err();
        assert!(failure.what.contains("stalled"), "{failure:?}");
        assert_eq!(failure.kind, Kind::Unreachable);
        // A command for a person waits for as long as they do.
        Bounds::default().waited(second * 100_000, false).unwrap();
        Bounds::default().check().unwrap();
        let unwanted = Bounds {
            wanted: Some(Rc::new(|| Err(Failure::new("gone")))),
            ..Bounds::default()
        };
        assert_eq!(unwanted.check().unwrap_err().what, "gone");
    }

    #[test]
    fn what_is_zero_is_left_out() {
        let mut bytes = vec![0; 5 * BLOCK_BYTES + 10];
        assert!(runs(&bytes, BLOCK_BYTES).is_empty());
        bytes[BLOCK_BYTES - 1] = 1;
        bytes[2 * BLOCK_BYTES] = 1;
        bytes[3 * BLOCK_BYTES + 7] = 1;
        bytes[5 * BLOCK_BYTES + 9] = 1;
        let found = runs(&bytes, BLOCK_BYTES);
        assert_eq!(
            found,
            [
                (0, BLOCK_BYTES),
                (2 * BLOCK_BYTES, 4 * BLOCK_BYTES),
                (5 * BLOCK_BYTES, 5 * BLOCK_BYTES + 10)
            ]
        );
        assert!(runs(&[], BLOCK_BYTES).is_empty());
    }
}
