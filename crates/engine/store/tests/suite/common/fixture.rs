//! Stores that earlier versions wrote, kept as text: the bytes of the file, and what must be read from them.
//!
//! ```text
//! # a remark
//! size 1048576
//! 0: 414d495441... 3*00 256*'7/0/1@1:2.......'     bytes at an offset; what no line names is zeros
//! fence volume 7 generation 2 owner 13 group 1/0 epoch 2 blocks 1024 in-sync abcd0001
//! fence volume 13 ... in-sync abcd0002 syncing abcd0001
//! newest 7 3                                       the newest snapshot of volume 7
//! chunk 7/0 version 2:41
//! chunk 13/1 version 4:9 incomplete 3:2            it was last whole at 3:2
//! data 7/0/1 version 1:2 sum 0123abcd bytes 256*'7/0/1@1:2.......'
//! cleared 7/0/64-127 version 1:5                   first and last block
//! chunk 7@2/0 version 1:7                          the same at snapshot 2
//! dropped 1                                        batches at the end of the log that are not whole
//! ```
//!
//! Bytes are written as tokens: hexadecimal digits, or text in quotes; before either `N*` repeats it. A block of a
//! chunk that no line names was never written.

use super::{BLOCK, Requester, Rig, data, version};
use amita_reactor::Slice;
use amita_store::State;
use amita_types::message::{
    AllocationAnswer, AllocationRequest, AnswerBody, ChangesAnswer, ChangesRequest, DataAnswer, FenceRequest,
    OpenRequest, ReadRequest, Refusal, Request, RequestBody, VerifiedAnswer, VerifyRequest,
};
use amita_types::{
    BlockIndex, BlockRange, ChunkIndex, Epoch, Generation, GroupId, GroupIndex, MAX_IO_BLOCKS, NodeId, PoolId,
    SnapshotId, StoreId, Version, VolumeId,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::str::FromStr;

/// Who owns a volume, and how it asks.
#[derive(Clone, Debug)]
pub struct Owner {
    pub asker: Requester,
    pub node: u32,
    pub group: GroupId,
    pub in_sync: Vec<u128>,
    /// The stores that are being brought up to date.
    pub syncing: Vec<u128>,
    /// The newest snapshot of the volume: changes name it.
    pub newest: u32,
    /// The snapshot that is read; 0: the volume itself.
    pub reading: u32,
}

impl Owner {
    pub fn request(&mut self, body: RequestBody) -> Request {
        use RequestBody::{Clear, Join, Roll, Write};
        let changes = matches!(body, Write { .. } | Clear { .. } | Roll { .. } | Join { .. });
        let mut request = self.asker.request(body);
        request.scope.group = self.group;
        request.scope.snapshot = SnapshotId(if changes { self.newest } else { self.reading });
        request
    }

    pub fn fence_request(&mut self) -> Request {
        let body = RequestBody::Fence(FenceRequest {
            syncing: self.syncing.iter().map(|&id| StoreId(id)).collect(),
            owner: NodeId(self.node),
            in_sync: self.in_sync.iter().map(|&id| StoreId(id)).collect::<Vec<_>>(),
            blocks_per_chunk: self.asker.blocks_per_chunk,
            given_back: None,
        });
        self.request(body)
    }

    pub fn ask(&mut self, rig: &mut Rig, body: RequestBody, payload: &[u8]) -> (Result<AnswerBody, Refusal>, Slice) {
        let request = self.request(body);
        let told = self.asker.ask(rig, request, Slice::copy_from(payload));
        (told.answer.result, told.payload)
    }

    pub fn fence(&mut self, rig: &mut Rig) -> Result<AnswerBody, Refusal> {
        let request = self.fence_request();
        self.asker.ask(rig, request, Slice::default()).answer.result
    }
}

/// What a block must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    pub version: Version,
    /// Checksum and data; `None`: it was cleared.
    pub data: Option<(u32, Vec<u8>)>,
}

/// What a chunk must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chunk {
    pub version: Version,
    /// It was last whole at this version.
    pub incomplete: Option<Version>,
    pub blocks: BTreeMap<u16, Expected>,
}

/// A chunk of a volume, at one of its snapshots or (0) as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub volume: u64,
    pub snapshot: u32,
    pub chunk: u64,
}

impl Place {
    /// The chunk as it is.
    pub fn head(volume: u64, chunk: u64) -> Place {
        Place {
            volume,
            snapshot: 0,
            chunk,
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.snapshot {
            0 => write!(f, "{}/{}", self.volume, self.chunk),
            snapshot => write!(f, "{}@{snapshot}/{}", self.volume, self.chunk),
        }
    }
}

/// A store that some version wrote.
#[derive(Clone, Debug, Default)]
pub struct Fixture {
    pub image: Vec<u8>,
    pub owners: Vec<Owner>,
    pub chunks: BTreeMap<Place, Chunk>,
    pub dropped: u64,
}

impl Fixture {
    /// Reads the text.
    ///
    /// # Panics
    /// With the line's number, where it is not as it should be.
    pub fn parse(text: &str) -> Fixture {
        let mut fixture = Fixture::default();
        for (at, line) in text.lines().enumerate() {
            let mut words = Words(line.split_whitespace(), at + 1);
            match words.0.next() {
                None => {}
                Some(first) if first.starts_with('#') => {}
                Some("size") => fixture.image = vec![0; words.number()],
                Some("dropped") => fixture.dropped = words.number(),
                Some("fence") => fixture.owners.push(words.owner()),
                Some("newest") => {
                    let volume: u64 = words.number();
                    let owner = fixture.owners.iter_mut().find(|owner| owner.asker.volume.0 == volume);
                    owner.expect("its fence comes first").newest = words.number();
                }
                Some("chunk") => {
                    let (place, []) = words.place();
                    let version = words.version();
                    let chunk = fixture.chunks.entry(place).or_default();
                    chunk.version = version;
                    chunk.incomplete = words.0.next().map(|word| {
                        assert_eq!(word, "incomplete", "line {}", at + 1);
                        version_of(words.next())
                    });
                }
                Some("data") => {
                    let (place, [block]) = words.place();
                    let version = words.version();
                    let sum = u32::from_str_radix(words.named("sum"), 16).expect("a checksum");
                    words.word("bytes");
                    let data = Some((sum, words.bytes()));
                    let expected = Expected { version, data };
                    let before = fixture
                        .chunks
                        .entry(place)
                        .or_default()
                        .blocks
                        .insert(block as u16, expected);
                    assert!(before.is_none(), "line {}: the block is there twice", at + 1);
                }
                Some("cleared") => {
                    let place = words.0.next().expect("a place");
                    let (place, last) = place.split_once('-').expect("first and last block");
                    let (place, [first]) = place_of(place);
                    let version = words.version();
                    for block in first as u16..=last.parse().expect("a block") {
                        let expected = Expected { version, data: None };
                        let before = fixture.chunks.entry(place).or_default().blocks.insert(block, expected);
                        assert!(before.is_none(), "line {}: the block is there twice", at + 1);
                    }
                }
                Some(offset) => {
                    let start = offset.strip_suffix(':').and_then(|offset| offset.parse().ok());
                    let start: usize = start.unwrap_or_else(|| panic!("line {}: what is {offset}?", at + 1));
                    let bytes = words.bytes();
                    fixture.image[start..start + bytes.len()].copy_from_slice(&bytes);
                }
            }
        }
        fixture
    }

    /// The text of it, without the remarks at its head.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        for owner in &self.owners {
            let list = |stores: &[u128]| stores.iter().map(|id| format!("{id:x}")).collect::<Vec<_>>().join(",");
            let syncing = match &owner.syncing[..] {
                [] => String::new(),
                stores => format!(" syncing {}", list(stores)),
            };
            let _ = writeln!(
                out,
                "fence volume {} generation {} owner {} group {}/{} epoch {} blocks {} in-sync {}{syncing}",
                owner.asker.volume.0,
                owner.asker.generation.0,
                owner.node,
                owner.group.pool.0,
                owner.group.index.0,
                owner.asker.epoch.0,
                owner.asker.blocks_per_chunk,
                list(&owner.in_sync)
            );
        }
        for owner in self.owners.iter().filter(|owner| owner.newest > 0) {
            let _ = writeln!(out, "newest {} {}", owner.asker.volume.0, owner.newest);
        }
        for (place, chunk) in &self.chunks {
            let incomplete = chunk.incomplete.map(|base| format!(" incomplete {base}"));
            let incomplete = incomplete.unwrap_or_default();
            let _ = writeln!(out, "\nchunk {place} version {}{incomplete}", chunk.version);
            let mut blocks = chunk.blocks.iter().peekable();
            while let Some((block, expected)) = blocks.next() {
                let version = expected.version;
                if let Some((sum, bytes)) = &expected.data {
                    let bytes = tokens(bytes).join(" ");
                    let _ = writeln!(
                        out,
                        "data {place}/{block} version {version} sum {sum:08x} bytes {bytes}"
                    );
                    continue;
                }
                let mut last = *block;
                while blocks.next_if(|(b, e)| **b == last + 1 && *e == expected).is_some() {
                    last += 1;
                }
                let _ = writeln!(out, "cleared {place}/{block}-{last} version {version}");
            }
        }
        let _ = writeln!(out, "\ndropped {}\n\nsize {}", self.dropped, self.image.len());
        for (page, bytes) in self.image.chunks(BLOCK).enumerate() {
            if bytes.iter().any(|&byte| byte != 0) {
                put_page(&mut out, page * BLOCK, bytes);
            }
        }
        out
    }

    /// How many blocks hold data. Snapshots and clones share them; no two writes are of the same bytes.
    pub fn blocks(&self) -> u64 {
        let blocks = self.chunks.values().flat_map(|chunk| chunk.blocks.values());
        let data: BTreeSet<&[u8]> = blocks.filter_map(|block| Some(&block.data.as_ref()?.1[..])).collect();
        data.len() as u64
    }

    /// Asks the store for everything, and compares. The store is mounted and its volumes' owners are as told.
    pub fn check(&self, rig: &mut Rig) {
        assert_eq!(*rig.store.state(), State::Serving);
        for owner in &self.owners {
            let mut owner = owner.clone();
            assert_eq!(owner.fence(rig), Ok(AnswerBody::Fenced), "{owner:?}");
            for (place, chunk) in &self.chunks {
                if place.volume == owner.asker.volume.0 {
                    owner.reading = place.snapshot;
                    check_chunk(&mut owner, rig, *place, chunk);
                }
            }
        }
        let status = rig.store.status();
        assert_eq!(status.blocks, self.blocks());
        assert!(status.free_bytes + status.blocks * BLOCK as u64 <= status.capacity_bytes);
    }

    /// What the store has seen of ownership it has seen for ever (rule R2).
    pub fn check_older(&self, rig: &mut Rig) {
        for owner in &self.owners {
            let (generation, epoch) = (owner.asker.generation, owner.asker.epoch);
            let mut older = owner.clone();
            older.asker.generation = Generation(generation.0 - 1);
            assert_eq!(older.fence(rig), Err(Refusal::Fenced { generation }));
            let mut older = owner.clone();
            older.asker.epoch = Epoch(epoch.0 - 1);
            assert_eq!(older.fence(rig), Err(Refusal::StaleEpoch { epoch }));
        }
    }
}

fn check_chunk(owner: &mut Owner, rig: &mut Rig, place: Place, expected: &Chunk) {
    let index = ChunkIndex(place.chunk);
    let blocks = owner.asker.blocks_per_chunk;
    let (opened, _) = owner.ask(rig, RequestBody::Open(OpenRequest { chunk: index }), &[]);
    let version = expected.version;
    let incomplete = expected.incomplete;
    let Ok(AnswerBody::Opened(said)) = opened else {
        panic!("{place}: {opened:?}")
    };
    assert_eq!((said.version, said.incomplete), (version, incomplete), "{place}");
    check_entries(owner, rig, place, expected);
    check_verified(owner, rig, place, expected);
    if incomplete.is_some() || owner.syncing.contains(&super::STORE.0) {
        let read = RequestBody::Read(ReadRequest {
            chunk: index,
            range: BlockRange::new(0, 1),
            least: Version::NONE,
            versions: false,
            newest: None,
        });
        assert_eq!(owner.ask(rig, read, &[]).0, Err(Refusal::Incomplete), "{place}");
        return;
    }

    let mut allocated = [0; 16];
    for first in (0..blocks).step_by(MAX_IO_BLOCKS as usize) {
        let count = (blocks - first).min(MAX_IO_BLOCKS as u16);
        let read = RequestBody::Read(ReadRequest {
            chunk: index,
            range: BlockRange::new(first, count),
            least: version,
            versions: false,
            newest: None,
        });
        let (result, payload) = owner.ask(rig, read, &[]);
        let Ok(AnswerBody::Data(DataAnswer { version, sums, .. })) = result else {
            panic!("{place}/{first}: {result:?}")
        };
        let there = expected.blocks.range(first..first + count);
        let newest = there.clone().map(|(_, entry)| entry.version).max();
        assert_eq!(version, newest.unwrap_or_default(), "{place}/{first}");
        let has_data = there.clone().any(|(_, entry)| entry.data.is_some());
        assert_eq!(payload.is_empty(), !has_data, "{place}/{first}");
        let bytes = data(count, &payload, &sums);
        for (block, bytes) in (first..).zip(bytes.chunks(BLOCK)) {
            let entry = expected.blocks.get(&block);
            let Some((sum, right)) = entry.and_then(|entry| entry.data.as_ref()) else {
                assert!(bytes == [0; BLOCK], "{place}/{block} is no zeros");
                continue;
            };
            allocated[usize::from(block) / 64] |= 1 << (block % 64);
            let itself = amita_types::crc32c(right);
            assert_eq!(itself, *sum, "{place}/{block}: the fixture itself is wrong");
            assert_eq!(sums[usize::from(block - first)], *sum, "{place}/{block}");
            assert!(bytes == right, "{place}/{block} has other bytes");
        }
    }

    let body = RequestBody::Allocation(AllocationRequest {
        chunk: index,
        least: version,
        newest: None,
    });
    let allocated = Box::new(allocated);
    assert_eq!(
        owner.ask(rig, body, &[]).0,
        Ok(AnswerBody::Allocation(AllocationAnswer {
            allocated,
            version: None
        })),
        "{place}"
    );
}

/// Every block on the disk is what its entry says.
fn check_verified(owner: &mut Owner, rig: &mut Rig, place: Place, expected: &Chunk) {
    let mut found = BTreeMap::new();
    let mut from = Some(BlockIndex(0));
    while let Some(first) = from {
        let body = RequestBody::Verify(VerifyRequest {
            chunk: ChunkIndex(place.chunk),
            from: first,
            least: expected.version,
        });
        let (Ok(AnswerBody::Verified(VerifiedAnswer { entries, damaged, more })), _) = owner.ask(rig, body, &[]) else {
            panic!("{place}: not verified")
        };
        assert!(damaged.is_empty(), "{place}: {damaged:?}");
        found.extend(entries.iter().map(|entry| (entry.block.0, (entry.version, entry.sum))));
        from = more;
    }
    let mut all = entries_of(expected);
    if SnapshotId(place.snapshot) != SnapshotId::HEAD {
        // Of a snapshot only what lies elsewhere than the next newer view has it.
        all.retain(|block, _| found.contains_key(block));
    }
    assert_eq!(found, all, "{place}");
}

fn entries_of(expected: &Chunk) -> BTreeMap<u16, (Version, Option<u32>)> {
    let blocks = expected.blocks.iter();
    let sum = |entry: &Expected| entry.data.as_ref().map(|(sum, _)| *sum);
    blocks
        .map(|(block, entry)| (*block, (entry.version, sum(entry))))
        .collect()
}

fn check_entries(owner: &mut Owner, rig: &mut Rig, place: Place, expected: &Chunk) {
    let index = ChunkIndex(place.chunk);
    let mut found = BTreeMap::new();
    let mut from = Some(BlockIndex(0));
    while let Some(first) = from {
        let body = RequestBody::Changes(ChangesRequest {
            chunk: index,
            since: Version::NONE,
            from: first,
        });
        let (Ok(AnswerBody::Changes(ChangesAnswer { entries, more })), _) = owner.ask(rig, body, &[]) else {
            panic!("{place}: no list of changes")
        };
        found.extend(entries.iter().map(|entry| (entry.block.0, (entry.version, entry.sum))));
        from = more;
    }
    assert_eq!(found, entries_of(expected), "{place}");
}

fn version_of(text: &str) -> Version {
    let (generation, counter) = text.split_once(':').expect("generation:counter");
    version(
        generation.parse().expect("a generation"),
        counter.parse().expect("a counter"),
    )
}

struct Words<'a>(std::str::SplitWhitespace<'a>, usize);

impl<'a> Words<'a> {
    fn next(&mut self) -> &'a str {
        let line = self.1;
        self.0.next().unwrap_or_else(|| panic!("line {line} ends too early"))
    }

    fn word(&mut self, word: &str) {
        let (line, found) = (self.1, self.next());
        assert_eq!(found, word, "line {line}");
    }

    fn named(&mut self, name: &str) -> &'a str {
        self.word(name);
        self.next()
    }

    fn number<T: FromStr>(&mut self) -> T {
        let (line, word) = (self.1, self.next());
        word.parse()
            .unwrap_or_else(|_| panic!("line {line}: {word} is no number"))
    }

    fn place<const N: usize>(&mut self) -> (Place, [u64; N]) {
        place_of(self.next())
    }

    fn version(&mut self) -> Version {
        version_of(self.named("version"))
    }

    fn owner(&mut self) -> Owner {
        let number = |text: &str| text.parse::<u64>().expect("a number");
        let volume = number(self.named("volume"));
        let generation = number(self.named("generation"));
        let node = number(self.named("owner")) as u32;
        let [pool, group] = numbers(self.named("group"));
        let epoch = number(self.named("epoch"));
        let blocks = number(self.named("blocks"));
        let id = |text| u128::from_str_radix(text, 16).expect("a UUID");
        let in_sync = self.named("in-sync").split(',').map(id).collect();
        let syncing = self.0.next().map(|word| {
            assert_eq!(word, "syncing", "line {}", self.1);
            self.next().split(',').map(id).collect()
        });
        let owner = owner(
            volume,
            generation as u32,
            node,
            (pool as u32, group as u32),
            epoch,
            blocks as u16,
            in_sync,
        );
        Owner {
            syncing: syncing.unwrap_or_default(),
            ..owner
        }
    }

    fn bytes(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for token in self.0.by_ref() {
            let (count, what) = token.split_once('*').unwrap_or(("1", token));
            let piece: Vec<u8> = match what.strip_prefix('\'').and_then(|what| what.strip_suffix('\'')) {
                Some(text) => text.bytes().collect(),
                None => {
                    let pairs = what.as_bytes().chunks(2);
                    let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16);
                    pairs
                        .map(byte)
                        .collect::<Result<_, _>>()
                        .unwrap_or_else(|_| panic!("line {}: {token}", self.1))
                }
            };
            bytes.extend(piece.repeat(count.parse().expect("a count")));
        }
        bytes
    }
}

/// `volume/chunk`, or `volume@snapshot/chunk`, and `N` numbers more.
fn place_of<const N: usize>(text: &str) -> (Place, [u64; N]) {
    let (volume, rest) = text.split_once('/').expect("volume/chunk");
    let (volume, snapshot) = volume.split_once('@').unwrap_or((volume, "0"));
    let (chunk, rest) = rest
        .split_once('/')
        .map_or((rest, None), |(chunk, rest)| (chunk, Some(rest)));
    let place = Place {
        volume: volume.parse().expect("a volume"),
        snapshot: snapshot.parse().expect("a snapshot"),
        chunk: chunk.parse().expect("a chunk"),
    };
    let more = rest.map_or_else(Vec::new, |rest| {
        rest.split('/').map(|part| part.parse().expect("a number")).collect()
    });
    let more = more
        .try_into()
        .unwrap_or_else(|more| panic!("{N} numbers behind a chunk, not {more:?}"));
    (place, more)
}

fn numbers<const N: usize>(text: &str) -> [u64; N] {
    let parts: Vec<u64> = text.split('/').map(|part| part.parse().expect("a number")).collect();
    parts
        .try_into()
        .unwrap_or_else(|parts| panic!("{N} numbers, not {parts:?}"))
}

/// An owner, on a link of its own.
pub fn owner(
    volume: u64,
    generation: u32,
    node: u32,
    group: (u32, u32),
    epoch: u64,
    blocks_per_chunk: u16,
    in_sync: Vec<u128>,
) -> Owner {
    let mut asker = Requester::new(u64::from(node));
    asker.volume = VolumeId(volume);
    asker.generation = Generation(generation);
    asker.epoch = Epoch(epoch);
    asker.blocks_per_chunk = blocks_per_chunk;
    Owner {
        asker,
        node,
        group: GroupId {
            pool: PoolId(group.0),
            index: GroupIndex(group.1),
        },
        in_sync,
        syncing: Vec::new(),
        newest: 0,
        reading: 0,
    }
}

/// The lengths of what may repeat: a byte, integers, entries of the format, and the pattern of the fixtures' data.
const PERIODS: [usize; 6] = [1, 4, 8, 12, 16, 20];
/// Fewer bytes are not worth a token.
const LEAST_REPEATED: usize = 12;

fn repeats(bytes: &[u8], period: usize) -> usize {
    let Some(first) = bytes.get(..period) else { return 0 };
    bytes.chunks_exact(period).take_while(|piece| *piece == first).count()
}

fn token(bytes: &[u8]) -> String {
    if bytes.len() >= 16 && bytes.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'\'') {
        return format!("'{}'", String::from_utf8_lossy(bytes));
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn tokens(mut bytes: &[u8]) -> Vec<String> {
    let mut out = Vec::new();
    let mut literal = Vec::new();
    while let Some((&first, rest)) = bytes.split_first() {
        let best = PERIODS
            .iter()
            .map(|&period| (period, repeats(bytes, period)))
            .filter(|(period, count)| *count > 1 && period * count >= LEAST_REPEATED)
            .max_by_key(|(period, count)| (period * count, std::cmp::Reverse(*period)));
        let Some((period, count)) = best else {
            literal.push(first);
            bytes = rest;
            continue;
        };
        out.extend(literal.chunks(40).map(token));
        literal.clear();
        out.push(format!("{count}*{}", token(&bytes[..period])));
        bytes = &bytes[period * count..];
    }
    out.extend(literal.chunks(40).map(token));
    out
}

fn put_page(out: &mut String, offset: usize, bytes: &[u8]) {
    const WIDTH: usize = 116;
    let mut at = offset;
    let mut line = format!("{at}:");
    let mut end = at;
    for token in tokens(bytes) {
        if line.len() + 1 + token.len() > WIDTH && end > at {
            let _ = writeln!(out, "{line}");
            at = end;
            line = format!("{at}:");
        }
        line.push(' ');
        line.push_str(&token);
        end += Words(token.split_whitespace(), 0).bytes().len();
    }
    let _ = writeln!(out, "{line}");
}
