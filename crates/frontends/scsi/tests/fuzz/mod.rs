//! Sessions of SCSI commands out of any bytes: descriptor blocks and parameter lists that go wrong at some point. Used by `tests/fuzz.rs`.
//!
//! What must hold: nothing panics, a command ends in an answer or in I/O inside the logical unit that it is for, sense data are there where a
//! status says so and nowhere else, no answer is longer than its command allows, what a parameter list is asked for is taken once, and the
//! reservations of the volume stay sound, whatever they are told.

use amita_frontend::reservation::State;
use amita_scsi::nexus::Happening;
use amita_scsi::plan::{MAX_LIST_BYTES, MAX_TRANSFER_BLOCKS};
use amita_scsi::sense::{Format, MAX_SENSE_BYTES};
use amita_scsi::{
    Alua, Answer, Attribute, Catalog, Extent, Group, InitiatorPort, Io, Lengths, Lun, Nexus, Plan, Reservation, Status,
    Sum, Target, Task, TokenKeys, Unit, Work, asked, begun, copied, failed, gathered, plan, reserved,
};
use amita_types::io::IoError;
use amita_types::{NodeId, SnapshotId, VolumeId};
use std::sync::Arc;

const SIZE_BYTES: u64 = 1 << 30;
const CHUNK_BYTES: u32 = 4 << 20;
/// The most commands of a session.
const MAX_COMMANDS: usize = 64;

/// Where decisions come from; zeros when there is nothing left.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        let (front, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        front
    }

    fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }
}

/// A step of a session: which nexus, which logical unit, the block behind its length.
fn step(nexus: u8, lun: u8, cdb: &[u8], list: &[u8]) -> Vec<u8> {
    let mut bytes = vec![nexus, lun, cdb.len() as u8];
    bytes.extend(cdb);
    bytes.extend((list.len() as u16).to_le_bytes());
    bytes.extend(list);
    bytes
}

/// Sessions that are right, of commands of every kind.
pub fn seeds() -> Vec<Vec<u8>> {
    let keys = |key: u64, new_key: u64, flags: u8| {
        let mut list = [key.to_be_bytes(), new_key.to_be_bytes()].concat();
        list.extend([0, 0, 0, 0, flags, 0, 0, 0]);
        list
    };
    let unmap = [
        &[0, 22, 0, 16, 0, 0, 0, 0][..],
        &8_u64.to_be_bytes(),
        &16_u32.to_be_bytes(),
        &[0; 4],
    ]
    .concat();
    let told = [
        step(0, 0, &[0; 6], &[]),
        step(0, 0, &[0x12, 0, 0, 0, 96, 0], &[]),
        step(0, 0, &[0x12, 1, 0x83, 1, 0, 0], &[]),
        step(0, 0, &[0x12, 1, 0xb0, 1, 0, 0], &[]),
        step(0, 1, &[0xa0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0], &[]),
        step(0, 0, &[0x9e, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0], &[]),
        step(0, 0, &[0x1a, 0, 0x3f, 0xff, 252, 0], &[]),
        step(0, 0, &[0xa3, 0x0c, 0x80, 0, 0, 0, 0, 0, 4, 0, 0, 0], &[]),
        step(0, 0, &[0xa3, 0x0a, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0], &[]),
    ];
    let moved = [
        step(0, 0, &[0x28, 0, 0, 0, 0, 8, 0, 0, 8, 0], &[]),
        step(0, 0, &[0x2a, 8, 0, 0, 0, 8, 0, 0, 8, 0], &[]),
        step(0, 1, &[0x42, 0, 0, 0, 0, 0, 0, 0, 24, 0], &unmap),
        step(0, 0, &[0x41, 8, 0, 0, 0, 0, 0, 0, 8, 0], &[0; 512]),
        step(0, 0, &[0x89, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 1, 0, 0], &[0; 1024]),
        step(0, 0, &[0x9c, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0, 0, 32, 0, 0], &[]),
        step(0, 0, &[0x9e, 0x12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0], &[]),
        step(0, 0, &[0x15, 0x10, 0, 0, 4, 0], &[0; 4]),
    ];
    let reserved = [
        step(0, 0, &[0x5f, 0, 0, 0, 0, 0, 0, 0, 24, 0], &keys(0, 5, 1)),
        step(1, 0, &[0x5f, 6, 0, 0, 0, 0, 0, 0, 24, 0], &keys(0, 6, 0)),
        step(0, 0, &[0x5f, 1, 5, 0, 0, 0, 0, 0, 24, 0], &keys(5, 0, 0)),
        step(1, 0, &[0x5e, 3, 0, 0, 0, 0, 0, 1, 0, 0], &[]),
        step(1, 0, &[0x5f, 4, 5, 0, 0, 0, 0, 0, 24, 0], &keys(6, 5, 0)),
        step(0, 0, &[0; 6], &[]),
        step(1, 0, &[0x5f, 3, 0, 0, 0, 0, 0, 0, 24, 0], &keys(6, 0, 0)),
    ];
    let copies = [
        step(0, 0, &[0x84, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0], &[]),
        step(
            0,
            0,
            &[0x83, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 76, 0, 0],
            &copy_list(),
        ),
        step(0, 0, &[0x84, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0], &[]),
        step(0, 0, &[0x83, 0x10, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 32, 0, 0], &{
            let mut list = vec![0, 30, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 16];
            list.extend([0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 8, 0, 0, 0, 0]);
            list
        }),
    ];
    [&told[..], &moved, &reserved, &copies]
        .map(|steps| steps.concat())
        .to_vec()
}

/// An EXTENDED COPY of eight blocks of the first logical unit to another place in it.
fn copy_list() -> Vec<u8> {
    let mut list = vec![1, 0, 0, 32, 0, 0, 0, 0, 0, 0, 0, 28, 0, 0, 0, 0];
    // By the UUID's designator.
    list.extend([0xe4, 0, 0, 0, 1, 0x0a, 0, 18, 0x10, 0]);
    list.extend([1; 16]);
    list.extend([0, 0, 0, 0, 2, 0]);
    list.extend([0x02, 0, 0, 0x18, 0, 0, 0, 0, 0, 0, 0, 8]);
    list.extend(0_u64.to_be_bytes());
    list.extend(64_u64.to_be_bytes());
    list
}

fn unit(number: u16) -> Unit {
    Unit {
        number,
        volume: VolumeId(u64::from(number) + 1),
        snapshot: if number == 2 { SnapshotId(1) } else { SnapshotId::HEAD },
        name: format!("volume-{number}"),
        size_bytes: SIZE_BYTES,
        chunk_bytes: CHUNK_BYTES,
        block_bytes: if number == 1 { 4096 } else { 512 },
        uuid: [number as u8 + 1; 16],
        access: vec![(1, Alua::Optimized), (2, Alua::NonOptimized)],
        preferred: None,
        space: None,
    }
}

struct World {
    catalog: Catalog,
    target: Target,
    nexuses: Vec<Nexus>,
    /// Of the first volume.
    state: State,
}

impl World {
    fn new() -> World {
        let group = |tag: u16| Group {
            tag,
            node: NodeId(u32::from(tag)),
            name: String::new(),
            alive: true,
        };
        let nexus = |session: u8, tag: u16| {
            let initiator = InitiatorPort {
                name: "iqn.2026-01.test:host".into(),
                isid: [0x40, 0, 0, 0, 0, session],
            };
            Nexus::new(initiator, tag)
        };
        World {
            catalog: Catalog {
                node: NodeId(1),
                revision: 1,
                groups: vec![group(1), group(2)],
                tokens: TokenKeys::new(&[[7; 32]]).map(Arc::new),
                extended_reservations: true,
                ..Catalog::default()
            },
            target: Target {
                name: "iqn.2026-01.test:target".to_owned(),
                groups: vec![1, 2],
                units: (0..3).map(|number| Arc::new(unit(number))).collect(),
                initiators: Vec::new(),
                any_initiator: true,
                explicit_access: true,
            },
            nexuses: vec![nexus(1, 1), nexus(2, 1), nexus(1, 2)],
            state: State::default(),
        }
    }

    /// Takes what became of the reservations, as the settings tell it.
    fn settle(&mut self) {
        self.catalog.revision += 1;
        let state = Arc::new(self.state.clone());
        self.catalog.reservations.insert(VolumeId(1), state);
    }

    fn command(&mut self, which: usize, lun: Lun, cdb: &[u8], list: &[u8]) {
        let nexus = &mut self.nexuses[which];
        let task = Task {
            lun,
            cdb,
            attribute: Attribute::Simple,
            expected: Lengths {
                out: list.len() as u64,
                into: u64::MAX,
            },
        };
        let mut done = plan(&task, &self.catalog, &self.target, nexus);
        if let Plan::Gather { bytes, then } = &done {
            assert!((1..=MAX_LIST_BYTES).contains(bytes), "{bytes} bytes of a list");
            let mut list = list.to_vec();
            list.resize(*bytes as usize, 0);
            let then = *then;
            done = gathered(&then, &list, &self.catalog, &self.target, nexus);
            assert!(!matches!(done, Plan::Gather { .. }), "a second list");
        }
        let lengths = done.lengths();
        assert!(lengths.out <= 2 * MAX_TRANSFER_BLOCKS * 4096 && lengths.into <= MAX_TRANSFER_BLOCKS * 4096);
        self.end(which, done);
    }

    fn end(&mut self, which: usize, done: Plan) {
        let nexus = &mut self.nexuses[which];
        match done {
            Plan::Answer(answer) => check_answer(&answer),
            Plan::Io(io) => check_io(&io),
            Plan::Blocks(mut status) => {
                let mut asked = 0;
                while status.next().is_some() {
                    asked += 1;
                    assert!(asked <= amita_scsi::lba_status::MAX_CHUNKS);
                    status.found((asked % 2 == 0).then_some(&[u64::MAX - 1; 16]));
                }
                check_answer(&status.answer());
            }
            Plan::Copy { segments, then } => {
                for segment in &segments {
                    assert!(segment.length > 0);
                    assert!(segment.from_offset + segment.length <= SIZE_BYTES);
                    assert!(segment.to_offset + segment.length <= SIZE_BYTES);
                }
                let half = segments[0].length / 2;
                check_answer(&copied(&then, half, &[], Err(IoError::Damaged), nexus));
                let all = segments.iter().map(|segment| segment.length).sum();
                check_answer(&copied(&then, all, &[Sum::default(); 16], Ok(()), nexus));
            }
            Plan::Reserve {
                volume: VolumeId(1),
                host,
                command: Reservation::Engine(command),
                then,
            } => {
                let mut state = self.state.clone();
                let result = state.apply(host, &command).map(|()| state);
                if let Ok(state) = &result {
                    self.state = state.clone();
                }
                check_answer(&reserved(&then, &result));
                self.settle();
            }
            Plan::Token(work) => {
                let next = begun(*work, &self.catalog, 7, &mut |bytes| bytes.fill(3), nexus);
                assert!(!matches!(next, Plan::Token(_) | Plan::Gather { .. }));
                self.end(which, next);
            }
            Plan::Ask(asking) => {
                check_answer(&failed(&asking.place, IoError::Reserved, None));
                // The owner may know better.
                let next = asked(&asking, &self.catalog, &self.target, nexus);
                assert!(!matches!(next, Plan::Ask(_) | Plan::Gather { .. }), "asked again");
                self.end(which, next);
            }
            Plan::Reserve { .. } | Plan::Move { .. } | Plan::Gather { .. } => {}
        }
    }
}

fn check_answer(answer: &Answer) {
    assert_eq!(answer.sense.is_some(), answer.status == Status::CheckCondition);
    assert!(answer.status == Status::Good || answer.data.is_empty());
    if let Some(sense) = &answer.sense {
        for format in [Format::Fixed, Format::Descriptor] {
            let bytes = sense.encode(format);
            assert!(bytes.len() <= MAX_SENSE_BYTES && bytes.len() == usize::from(bytes[7]) + 8);
        }
    }
}

fn check_io(io: &Io) {
    let extents: Vec<Extent> = match &io.work {
        Work::Zero(extents) => extents.clone(),
        Work::Touch => Vec::new(),
        Work::Read(extent)
        | Work::Write(extent)
        | Work::WriteAtomic { extent, .. }
        | Work::WriteAndCheck(extent, _)
        | Work::Check(extent, _)
        | Work::CompareAndWrite(extent)
        | Work::Or(extent)
        | Work::Fill(extent, _) => vec![*extent],
    };
    let block = u64::from(io.place.block_bytes);
    for extent in extents {
        assert!(extent.end() <= SIZE_BYTES, "{extent:?} lies outside");
        assert!(extent.offset.is_multiple_of(block) && extent.length.is_multiple_of(block));
    }
    let is_read = matches!(io.work, Work::Read(_) | Work::Check(..));
    assert!(is_read || io.place.source.is_head(), "a snapshot is not changed");
}

/// A session.
pub fn scsi(input: &[u8]) {
    let mut input = Input(input);
    let mut world = World::new();
    for _ in 0..MAX_COMMANDS {
        if input.0.is_empty() {
            break;
        }
        let (which, lun) = (input.byte(), input.byte());
        let which = usize::from(which) % world.nexuses.len();
        let length = usize::from(input.byte()) % 40;
        let cdb = input.take(length);
        let length = u16::from_le_bytes([input.byte(), input.byte()]);
        let list = input.take(usize::from(length));
        let lun = match lun {
            0..4 => Lun::of(lun.into()),
            4 => Lun::REPORT_LUNS,
            5 => {
                world.nexuses[which].happened(None, Happening::Reset);
                Lun::of(0)
            }
            other => Lun([other; 8]),
        };
        world.command(which, lun, cdb, list);
    }
    // What is pending is told, once each.
    for which in 0..world.nexuses.len() {
        for number in 0..3 {
            let told = (0..32).take_while(|_| {
                world.nexuses[which].has_attention(number) && {
                    world.command(which, Lun::of(number), &[0; 6], &[]);
                    true
                }
            });
            assert!(told.count() < 32, "news without end");
        }
    }
}
