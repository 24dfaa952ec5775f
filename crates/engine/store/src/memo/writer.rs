//! Who writes the memo: one request at a time, through the store's front door.

use super::{EPOCH, GENERATION, GROUP, Head, MAX_CONTENT_BYTES, PLACES, VOLUME, content_position, head_position};
use crate::format::PAGE_BYTES;
use amita_reactor::{Pool, Slice, Time};
use amita_types::message::{
    Answer, AnswerBody, FenceRequest, OpenRequest, OpenedAnswer, ReadRequest, Refusal, Request, RequestBody, Scope,
    Sums, WriteRequest,
};
use amita_types::{
    BlockIndex, BlockRange, ChunkIndex, Epoch, Generation, MAX_BLOCKS_PER_CHUNK, MAX_IO_BLOCKS, NodeId, RequestId,
    SnapshotId, StoreId, Version,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// The pause after a store had too much to do.
const BUSY_PAUSE: Duration = Duration::from_millis(100);
/// The pause after a store could not do it: it has no space, or is damaged there.
const REFUSED_PAUSE: Duration = Duration::from_secs(5);

/// What is to be kept.
#[derive(Clone, Debug)]
pub struct Content {
    /// Which life of the metadata it is of; see [`Head::life`].
    pub life: u64,
    /// The metadata's revision.
    pub revision: u64,
    /// The content, filled up to a whole block with zeros.
    padded: Slice,
    length_bytes: u64,
    sum: u32,
}

impl Content {
    /// `None`: it is longer than a place, [`MAX_CONTENT_BYTES`].
    #[must_use]
    pub fn new(life: u64, revision: u64, bytes: &[u8]) -> Option<Content> {
        if bytes.is_empty() || bytes.len() as u64 > MAX_CONTENT_BYTES {
            return None;
        }
        let mut padded = Pool::heap().take(bytes.len().next_multiple_of(PAGE_BYTES))?;
        padded[..bytes.len()].copy_from_slice(bytes);
        padded[bytes.len()..].fill(0);
        Some(Content {
            life,
            revision,
            padded: padded.freeze(),
            length_bytes: bytes.len() as u64,
            sum: amita_types::crc32c(bytes),
        })
    }

    fn blocks(&self) -> u64 {
        (self.padded.len() / PAGE_BYTES) as u64
    }
}

/// What the store held when it was first looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The newer place's first page; `None`: there was no memo.
    pub newest: Option<Head>,
}

/// What the writer has to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoEvent {
    /// The store was looked at.
    Found(Found),
    /// A copy is durable.
    Written {
        /// Of this life of the metadata.
        life: u64,
        revision: u64,
    },
    /// A copy cannot be written; it is tried again. Said once until one can.
    Refused(Refusal),
}

/// What it is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Nobody has asked for anything.
    Off,
    /// The store is made to know the memo's volume.
    Fence,
    /// The first page of this place is read.
    Look { place: u64 },
    /// Nothing to write.
    Idle,
    /// Block `next` of the content is written; behind its end the first page.
    Write { place: u64, next: u64 },
    /// The store serves no more.
    Dead,
}

/// Writes the memo of one store. Pure: [`Writer::next`] gives the next request, [`Writer::answer`] takes its answer.
#[derive(Debug)]
pub struct Writer {
    store: StoreId,
    step: Step,
    generation: Generation,
    epoch: Epoch,
    /// The request under way.
    asked: Option<RequestId>,
    count: u64,
    versions: BTreeMap<ChunkIndex, Version>,
    heads: [Option<Head>; PLACES as usize],
    wanted: Option<Content>,
    writing: Option<Content>,
    retry: Option<Time>,
    said: bool,
    told: Vec<MemoEvent>,
}

impl Writer {
    /// Does nothing until it is asked to.
    #[must_use]
    pub fn new(store: StoreId) -> Writer {
        Writer {
            store,
            step: Step::Off,
            generation: GENERATION,
            epoch: EPOCH,
            asked: None,
            count: 0,
            versions: BTreeMap::new(),
            heads: [None; PLACES as usize],
            wanted: None,
            writing: None,
            retry: None,
            said: false,
            told: Vec::new(),
        }
    }

    /// Whose memo it is.
    #[must_use]
    pub fn store(&self) -> StoreId {
        self.store
    }

    /// What does the store hold? [`MemoEvent::Found`] says it.
    pub fn look(&mut self) {
        if self.step == Step::Off {
            self.step = Step::Fence;
        }
    }

    /// Keep this. A content that came before and is not being written yet is forgotten.
    pub fn keep(&mut self, content: Content) {
        self.wanted = Some(content);
        self.look();
    }

    /// Is nothing to be done? Then whoever carries the requests gives back what space was granted for them
    /// ([`Store::link_closed`](crate::Store::link_closed)).
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.step == Step::Idle && self.wanted.is_none()
    }

    /// What there is to tell, in order.
    pub fn told(&mut self) -> std::vec::Drain<'_, MemoEvent> {
        self.told.drain(..)
    }

    /// When [`Writer::next`] has something again that it has not now.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.retry
    }

    /// The next request, if none is under way.
    pub fn next(&mut self, now: Time) -> Option<(Request, Slice)> {
        if self.asked.is_some() || self.retry.is_some_and(|at| now < at) {
            return None;
        }
        self.retry = None;
        if self.step == Step::Idle
            && let Some(content) = self.wanted.take()
        {
            let place = self.oldest();
            self.writing = Some(content);
            self.step = Step::Write { place, next: 0 };
        }
        let (body, payload) = self.body()?;
        self.count += 1;
        let id = RequestId(self.count);
        self.asked = Some(id);
        let request = Request {
            id,
            store: self.store,
            scope: Scope {
                volume: VOLUME,
                generation: self.generation,
                group: GROUP,
                epoch: self.epoch,
                snapshot: SnapshotId::HEAD,
            },
            trace: amita_types::TraceId::NONE,
            purpose: Default::default(),
            body,
        };
        Some((request, payload))
    }

    /// The place whose content is older, or none.
    fn oldest(&self) -> u64 {
        let number = |head: &Option<Head>| head.map_or(0, |head| head.number);
        u64::from(number(&self.heads[0]) > number(&self.heads[1]))
    }

    fn body(&self) -> Option<(RequestBody, Slice)> {
        match self.step {
            Step::Off | Step::Idle | Step::Dead => None,
            Step::Fence => {
                let body = RequestBody::Fence(FenceRequest {
                    owner: NodeId(0),
                    in_sync: [self.store].into_iter().collect(),
                    syncing: Vec::new(),
                    blocks_per_chunk: MAX_BLOCKS_PER_CHUNK as u16,
                    given_back: None,
                });
                Some((body, Slice::default()))
            }
            Step::Look { place } => {
                let (chunk, block) = head_position(place);
                let body = RequestBody::Read(ReadRequest {
                    chunk,
                    range: BlockRange::new(block.0, 1),
                    least: Version::NONE,
                    versions: false,
                    newest: None,
                });
                Some((body, Slice::default()))
            }
            Step::Write { place, next } => {
                let (chunk, block, data) = self.piece(place, next);
                let Some(&previous) = self.versions.get(&chunk) else {
                    return Some((RequestBody::Open(OpenRequest { chunk }), Slice::default()));
                };
                let sums: Sums = data.chunks(PAGE_BYTES).map(amita_types::crc32c).collect();
                let body = RequestBody::Write(WriteRequest {
                    chunk,
                    offset_bytes: u32::from(block.0) * PAGE_BYTES as u32,
                    length_bytes: data.len() as u32,
                    // At a write a second the counter lasts for thirty thousand years.
                    version: previous.next(self.generation)?,
                    previous,
                    sums,
                });
                Some((body, data))
            }
        }
    }

    /// What is written next: as many blocks as fit one message and lie in one chunk; at last the first page.
    fn piece(&self, place: u64, next: u64) -> (ChunkIndex, BlockIndex, Slice) {
        let content = self.writing.as_ref().expect("something is being written");
        if next >= content.blocks() {
            let (chunk, block) = head_position(place);
            return (chunk, block, Slice::copy_from(&self.head(content).encode()));
        }
        let (chunk, block) = content_position(place, next);
        let in_chunk = u64::from(MAX_BLOCKS_PER_CHUNK) - u64::from(block.0);
        let blocks = (content.blocks() - next).min(in_chunk).min(u64::from(MAX_IO_BLOCKS));
        let from = next as usize * PAGE_BYTES;
        let data = content.padded.slice(from..from + blocks as usize * PAGE_BYTES);
        (chunk, block, data)
    }

    fn head(&self, content: &Content) -> Head {
        let newest = self.heads.iter().flatten().map(|head| head.number).max();
        Head {
            number: newest.unwrap_or(0) + 1,
            life: content.life,
            revision: content.revision,
            length_bytes: content.length_bytes,
            sum: content.sum,
        }
    }

    /// The store has answered.
    pub fn answer(&mut self, now: Time, answer: Answer, payload: &Slice) {
        if self.asked != Some(answer.id) {
            return;
        }
        self.asked = None;
        match answer.result {
            Ok(body) => self.done(&body, payload),
            Err(refusal) => self.refused(now, refusal),
        }
    }

    fn done(&mut self, body: &AnswerBody, payload: &Slice) {
        match (self.step, body) {
            (Step::Fence, AnswerBody::Fenced) => {
                // What has begun goes on from its start: what of it is durable is not known any more.
                self.versions.clear();
                let looked = self.heads.iter().any(Option::is_some) || self.writing.is_some();
                self.step = match (looked, self.writing.take()) {
                    (false, _) => Step::Look { place: 0 },
                    (true, content) => {
                        self.wanted = self.wanted.take().or(content);
                        Step::Idle
                    }
                };
            }
            (Step::Look { place }, AnswerBody::Data(_)) => self.looked(place, Head::decode(payload)),
            (Step::Write { place, next }, AnswerBody::Opened(OpenedAnswer { version, .. })) => {
                let (chunk, ..) = self.piece(place, next);
                self.versions.insert(chunk, *version);
            }
            (Step::Write { place, next }, AnswerBody::Done) => self.written(place, next),
            // An answer to something else: asked again.
            _ => {}
        }
    }

    fn looked(&mut self, place: u64, head: Option<Head>) {
        self.heads[place as usize] = head;
        if place + 1 < PLACES {
            self.step = Step::Look { place: place + 1 };
            return;
        }
        let newest = self.heads.iter().flatten().max_by_key(|head| head.number).copied();
        self.told.push(MemoEvent::Found(Found { newest }));
        self.step = Step::Idle;
    }

    fn written(&mut self, place: u64, next: u64) {
        let (chunk, _, data) = self.piece(place, next);
        let generation = self.generation;
        if let Some(version) = self.versions.get_mut(&chunk) {
            *version = version.next(generation).expect("it was given out");
        }
        let content = self.writing.as_ref().expect("something is being written");
        if next < content.blocks() {
            let next = next + (data.len() / PAGE_BYTES) as u64;
            self.step = Step::Write { place, next };
            return;
        }
        let (life, revision) = (content.life, content.revision);
        self.heads[place as usize] = Some(self.head(content));
        self.writing = None;
        self.said = false;
        // The next copy asks anew: with the answer comes the right to space, which is given back meanwhile.
        self.versions.clear();
        self.told.push(MemoEvent::Written { life, revision });
        self.step = Step::Idle;
    }

    fn refused(&mut self, now: Time, refusal: Refusal) {
        match refusal {
            Refusal::NotFenced => self.step = Step::Fence,
            // Nobody but us fences it: the numbers of another program are no reason to stop.
            Refusal::Fenced { generation } => {
                self.generation = generation;
                self.step = Step::Fence;
            }
            Refusal::StaleEpoch { epoch } => {
                self.epoch = epoch;
                self.step = Step::Fence;
            }
            Refusal::WrongPredecessor { current } => {
                if let Step::Write { place, next } = self.step {
                    let (chunk, ..) = self.piece(place, next);
                    self.versions.insert(chunk, current);
                }
                self.retry = Some(now.plus(BUSY_PAUSE));
            }
            Refusal::Poisoned | Refusal::NoSuchStore => self.step = Step::Dead,
            Refusal::Busy => self.retry = Some(now.plus(BUSY_PAUSE)),
            // What cannot be read counts as nothing: it will be written over.
            Refusal::Damaged { .. } if matches!(self.step, Step::Look { .. }) => {
                let Step::Look { place } = self.step else { return };
                self.looked(place, None);
            }
            other => {
                if !std::mem::replace(&mut self.said, true) {
                    self.told.push(MemoEvent::Refused(other));
                }
                self.retry = Some(now.plus(REFUSED_PAUSE));
            }
        }
    }
}
