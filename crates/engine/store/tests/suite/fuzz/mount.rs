//! Any image: it is mounted or refused with an error, and never brings the store down. What is mounted serves only what
//! its checksums say, goes on, and is the same after the next mount.

use super::base::{Base, CHUNKS, base};
use super::edit;
use super::known::known;
use crate::common::fixture::Owner;
use crate::common::{BLOCK, Disk, Rig, data, sums};
use amita_reactor::{Pool, Slice, Time};
use amita_store::{Config, State};
use amita_types::message::{
    AnswerBody, Change, ChangesAnswer, ChangesRequest, ClearRequest, DataAnswer, OpenRequest, OpenedAnswer, Problem,
    ReadRequest, Refusal, RequestBody, WriteRequest,
};
use amita_types::{BlockIndex, BlockRange, ChunkIndex, MAX_IO_BLOCKS, Version};
use std::collections::BTreeMap;

/// Memory of the index that an image of a mebibyte may ask for.
const INDEX_BYTES: u64 = 64 << 20;
/// Batches that fill more than half of the log of 64 pages, so that a checkpoint is taken.
const FILLING: usize = 40;

/// What the store says of a block.
type Entry = (Version, Option<u32>);
/// What it says of a chunk: its version, and its blocks; `None`: nothing, because a leaf is damaged or the chunk deleted.
type View = BTreeMap<(u64, u64), Option<(Version, BTreeMap<u16, Entry>)>>;

/// See [`edit`] for what an input means. Faults that are known already are left out.
pub fn mount(input: &[u8]) {
    run(input, true);
}

/// The same, with the faults that are known.
pub fn mount_any(input: &[u8]) {
    run(input, false);
}

fn run(input: &[u8], step_around: bool) {
    let Some((&flags, edits)) = input.split_first() else {
        return;
    };
    let base: &Base = base(usize::from(flags));
    let mut image = base.image.clone();
    let forged = edit::apply(&mut image, flags, edits);
    if step_around && known(&image).is_some() {
        return;
    }

    let disk = Disk::new(image, flags & edit::VOLATILE != 0);
    let config = Config {
        index_bytes: INDEX_BYTES,
        ..Config::default()
    };
    let mut rig = Rig::open(disk, config, Time(1), 1, Pool::heap());
    rig.run();
    match rig.store.state() {
        State::Serving => {}
        State::Refused(error) => {
            // It says what, where and what to do.
            assert!(error.to_string().len() > 40, "{error}");
            return refused(&mut rig, base);
        }
        State::Mounting | State::Poisoned(_) => panic!("{:?}", rig.store.state()),
    }
    let mut owners = base.owners.clone();
    owners.retain_mut(|owner| own(owner, &mut rig));
    let before = view(&mut owners, &mut rig);
    odd_requests(&mut owners, &mut rig);
    go_on(&mut owners, &mut rig, if flags & edit::FILL != 0 { FILLING } else { 1 });
    let now = view(&mut owners, &mut rig);
    if let State::Poisoned(why) = rig.store.state() {
        // Index and map of slots contradict each other: a page said something that never was.
        assert!(forged, "{why}");
        return;
    }
    assert_eq!(*rig.store.state(), State::Serving);
    for (place, chunk) in &before {
        let (Some((version, _)), Some((then, _))) = (chunk, &now[place]) else {
            continue;
        };
        assert!(then >= version, "chunk {place:?} went back");
    }

    let mut again = rig.reopened(rig.disk.durable.clone());
    again.run();
    if forged && matches!(again.store.state(), State::Refused(_)) {
        return;
    }
    assert_eq!(*again.store.state(), State::Serving, "it was served before");
    owners.retain_mut(|owner| own(owner, &mut again));
    let then = view(&mut owners, &mut again);
    assert!(
        forged || then == now,
        "a mount changes nothing: {now:?} became {then:?}"
    );
}

/// A store that is refused answers nobody.
fn refused(rig: &mut Rig, base: &Base) {
    for owner in &base.owners {
        let mut owner = owner.clone();
        let told = owner.fence(rig);
        assert_eq!(told, Err(Refusal::NoSuchStore));
    }
}

fn ask(owner: &mut Owner, rig: &mut Rig, body: RequestBody, payload: &[u8]) -> (Result<AnswerBody, Refusal>, Slice) {
    let mut request = owner.request(body);
    request.store = rig.store.status().id;
    let told = owner.asker.ask(rig, request, Slice::copy_from(payload));
    (told.answer.result, told.payload)
}

/// Becomes the owner of the volume, if that can be: edits may have made it anybody's.
fn own(owner: &mut Owner, rig: &mut Rig) -> bool {
    let id = rig.store.status().id;
    owner.in_sync[0] = id.0;
    for _ in 0..3 {
        let mut request = owner.fence_request();
        request.store = id;
        match owner.asker.ask(rig, request, Slice::default()).answer.result {
            Ok(AnswerBody::Fenced) => return true,
            Err(Refusal::Fenced { generation }) if generation.next().is_some() => {
                owner.asker.generation = generation.next().expect("looked at");
            }
            Err(Refusal::StaleEpoch { epoch }) => owner.asker.epoch = epoch,
            Err(Refusal::Fenced { .. } | Refusal::NoSpace | Refusal::Poisoned) => return false,
            other => panic!("a fence was answered with {other:?}"),
        }
    }
    false
}

fn view(owners: &mut [Owner], rig: &mut Rig) -> View {
    let mut view = View::new();
    for owner in owners {
        for chunk in 0..CHUNKS {
            let place = (owner.asker.volume.0, chunk);
            let told = (open(owner, rig, chunk), entries(owner, rig, chunk));
            let (Some(version), Some(entries)) = told else {
                view.insert(place, None);
                continue;
            };
            let mut rest = &entries
                .iter()
                .map(|(&block, &entry)| (block, entry))
                .collect::<Vec<_>>()[..];
            while let Some((first, _)) = rest.first() {
                let near = rest.partition_point(|(block, _)| block - first < MAX_IO_BLOCKS as u16);
                let (now, later) = rest.split_at(near);
                check_reads(owner, rig, chunk, now);
                rest = later;
            }
            view.insert(place, Some((version, entries)));
        }
    }
    view
}

/// The chunk's version; `None` where the disk says that it is deleted or incomplete, or the store has stopped.
fn open(owner: &mut Owner, rig: &mut Rig, chunk: u64) -> Option<Version> {
    let body = RequestBody::Open(OpenRequest {
        chunk: ChunkIndex(chunk),
    });
    match ask(owner, rig, body, &[]).0 {
        Ok(AnswerBody::Opened(OpenedAnswer {
            version,
            incomplete: None,
            ..
        })) => Some(version),
        Ok(AnswerBody::Opened(_)) => None,
        Err(
            Refusal::Poisoned
            | Refusal::Incomplete
            | Refusal::Invalid {
                what: Problem::Snapshot,
            },
        ) => None,
        other => panic!("an open was answered with {other:?}: {:?}", rig.store.state()),
    }
}

fn entries(owner: &mut Owner, rig: &mut Rig, chunk: u64) -> Option<BTreeMap<u16, Entry>> {
    let mut found = BTreeMap::new();
    let mut from = BlockIndex(0);
    loop {
        let body = RequestBody::Changes(ChangesRequest {
            chunk: ChunkIndex(chunk),
            since: Version::NONE,
            from,
        });
        let (entries, more) = match ask(owner, rig, body, &[]).0 {
            Ok(AnswerBody::Changes(ChangesAnswer { entries, more })) => (entries, more),
            Err(
                Refusal::Damaged { .. }
                | Refusal::Poisoned
                | Refusal::Incomplete
                | Refusal::Invalid {
                    what: Problem::Snapshot,
                },
            ) => return None,
            other => panic!("changes were answered with {other:?}"),
        };
        for Change { block, version, sum } in entries {
            assert!(block >= from && found.insert(block.0, (version, sum)).is_none());
        }
        match more {
            Some(more) => {
                assert!(more > from, "the list gets on");
                from = more;
            }
            None => return Some(found),
        }
    }
}

/// The blocks that one read covers are what their entries say; where one is damaged, they are read one by one.
fn check_reads(owner: &mut Owner, rig: &mut Rig, chunk: u64, entries: &[(u16, Entry)]) {
    let (first, last) = (entries[0].0, entries[entries.len() - 1].0);
    let count = last - first + 1;
    let body = RequestBody::Read(ReadRequest {
        chunk: ChunkIndex(chunk),
        range: BlockRange::new(first, count),
        least: Version::NONE,
        versions: false,
        newest: None,
    });
    let (result, payload) = ask(owner, rig, body, &[]);
    let Ok(AnswerBody::Data(DataAnswer { version, sums, .. })) = result else {
        for (block, entry) in entries {
            check_read(owner, rig, chunk, *block, *entry);
        }
        return;
    };
    let bytes = data(count, &payload, &sums);
    assert_eq!(Some(version), entries.iter().map(|(_, (version, _))| *version).max());
    for (block, (_, sum)) in entries {
        let bytes = &bytes[usize::from(block - first) * BLOCK..][..BLOCK];
        match sum {
            Some(sum) => assert_eq!(amita_types::crc32c(bytes), *sum, "block {block} of chunk {chunk}"),
            None => assert!(bytes == [0; BLOCK], "block {block} of chunk {chunk}"),
        }
    }
}

/// A block is what its entry says, or damaged; nothing else.
fn check_read(owner: &mut Owner, rig: &mut Rig, chunk: u64, block: u16, (version, sum): Entry) {
    let body = RequestBody::Read(ReadRequest {
        chunk: ChunkIndex(chunk),
        range: BlockRange::new(block, 1),
        least: Version::NONE,
        versions: false,
        newest: None,
    });
    let (result, payload) = ask(owner, rig, body, &[]);
    match result {
        Ok(AnswerBody::Data(DataAnswer {
            version: read, sums, ..
        })) => {
            data(1, &payload, &sums);
            assert_eq!(read, version);
            assert_eq!(sums.first().copied(), sum);
        }
        Err(Refusal::Damaged { block: damaged }) => assert!(damaged.0 == block && sum.is_some()),
        Err(Refusal::Poisoned) => {}
        // The disk says that another store is in sync, or that the chunk is not whole.
        Err(Refusal::Incomplete) => {}
        // The entry lies outside what the fence on the disk says of chunks.
        Err(Refusal::Invalid { what: Problem::Range }) => assert!(block >= owner.asker.blocks_per_chunk),
        other => panic!("a read was answered with {other:?}"),
    }
}

/// Whatever the disk says of chunks, no request reaches beyond one.
fn odd_requests(owners: &mut [Owner], rig: &mut Rig) {
    for owner in owners {
        for block in [1023, 1024, 4096, u16::MAX] {
            let range = BlockRange::new(block, 1);
            let chunk = ChunkIndex(0);
            let body = RequestBody::Read(ReadRequest {
                chunk,
                range,
                least: Version::NONE,
                versions: false,
                newest: None,
            });
            let (result, _) = ask(owner, rig, body, &[]);
            let inside = u32::from(block) < amita_types::MAX_BLOCKS_PER_CHUNK;
            assert!(inside || result.is_err(), "block {block} of a chunk");
        }
    }
}

/// Writes, parts of blocks and clears, as they come.
fn go_on(owners: &mut [Owner], rig: &mut Rig, rounds: usize) {
    for round in 0..rounds {
        for owner in &mut *owners {
            let chunk = ChunkIndex(round as u64 % CHUNKS);
            let Some(previous) = open(owner, rig, chunk.0) else {
                continue;
            };
            let Some(version) = previous.next(owner.asker.generation) else {
                continue;
            };
            let (offset, length) = [(0, BLOCK), (62 * BLOCK + 3, BLOCK), (5 * BLOCK, 1)][round % 3];
            let bytes = vec![round as u8; length];
            let (body, payload) = if round % 4 == 3 {
                let range = BlockRange::new(60, 10);
                let body = RequestBody::Clear(ClearRequest {
                    chunk,
                    range,
                    version,
                    previous,
                });
                (body, &[][..])
            } else {
                let body = RequestBody::Write(WriteRequest {
                    chunk,
                    offset_bytes: offset as u32,
                    length_bytes: length as u32,
                    version,
                    previous,
                    sums: sums(offset as u32, &bytes),
                });
                (body, &bytes[..])
            };
            let told = ask(owner, rig, body, payload).0;
            let fair = matches!(
                told,
                Ok(AnswerBody::Done)
                    | Err(Refusal::NoSpace
                        | Refusal::Poisoned
                        | Refusal::Damaged { .. }
                        // The disk says that the chunk is of a later owner or snapshot, or that chunks are small.
                        | Refusal::Invalid {
                            what: Problem::Version | Problem::Snapshot | Problem::Range
                        })
            );
            assert!(fair, "a change was answered with {told:?}");
        }
    }
}
