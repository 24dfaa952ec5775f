//! Parts by themselves: what is written reads back, and a tree is what was laid.

use super::{CHEAP, PASSPHRASE, Random, identity};
use crate::codec::{Cursor, Writer};
use crate::entry::{Entry, Point, VolumePoint};
use crate::pack::PackName;
use crate::piece::PieceId;
use crate::slot::{Cost, KeySlot};
use crate::state::{Refusal, SessionId, State};
use crate::tree::{Branch, LEAF_BLOCKS, Leaf};
use crate::vault::VaultId;
use crate::watch::Watch;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::time::Duration;

fn id(number: u64) -> PieceId {
    let mut bytes = [0; 24];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    PieceId(bytes)
}

proptest! {
    #[test]
    fn numbers_have_one_spelling(value: u64) {
        let mut writer = Writer::default();
        writer.number(value);
        let mut cursor = Cursor(&writer.0);
        prop_assert_eq!(cursor.number(), Ok(value));
        prop_assert!(cursor.end().is_ok());
        let mut longer = writer.0.clone();
        *longer.last_mut().unwrap() |= 0x80;
        longer.push(0);
        prop_assert!(Cursor(&longer).number().is_err());
    }

    #[test]
    fn a_leaf_is_what_was_laid(lays in proptest::collection::vec((0..300_u32, 1..65_u32, any::<bool>()), 1..60)) {
        let mut leaf = Leaf::default();
        let mut model: BTreeMap<u32, (PieceId, u32)> = BTreeMap::new();
        for (number, (start, blocks, data)) in (0_u64..).zip(lays) {
            // Some at the leaf's very end.
            let start = if start > 250 { LEAF_BLOCKS - blocks } else { start };
            leaf.lay(start, blocks, data.then(|| id(number)));
            for at in 0..blocks {
                if data {
                    model.insert(start + at, (id(number), at));
                } else {
                    model.remove(&(start + at));
                }
            }
            let said = leaf.extents().iter().flat_map(|extent| {
                (0..extent.blocks).map(|at| (extent.start + at, (extent.piece, extent.skip + at)))
            });
            prop_assert_eq!(&said.collect::<BTreeMap<_, _>>(), &model);
            let sum: u32 = leaf.extents().iter().map(|extent| extent.blocks).sum();
            prop_assert_eq!(sum as usize, model.len(), "no block twice");
        }
        prop_assert_eq!(Leaf::parse(&leaf.encode()), Ok(leaf));
    }

    #[test]
    fn a_branch_reads_back(there in proptest::collection::btree_set(0..1024_usize, 0..40)) {
        let mut branch = Branch::default();
        there.iter().for_each(|at| branch.set(*at, Some(id(*at as u64))));
        prop_assert_eq!(branch.is_empty(), there.is_empty());
        prop_assert_eq!(Branch::parse(&branch.encode()), Ok(branch));
    }

    #[test]
    fn entries_read_back_and_nothing_else_does(seed: u64) {
        let mut random = Random::new(seed);
        let pack = |random: &mut Random| PackName { session: SessionId(random.bits()), count: random.bits() as u32 };
        let session = SessionId(random.bits());
        let packs: Vec<PackName> = (0..random.below(5)).map(|_| pack(&mut random)).collect();
        let volume = VolumePoint {
            identity: identity(random.below(200) as u8),
            bytes: random.below(1 << 26) * 4096,
            encrypted: random.percent(50),
            snapshot: (random.bits(), random.bits()),
            parent: random.percent(50).then(|| random.within(1, 1000)),
            branches: Vec::new(),
        };
        let branches = volume.bytes.div_ceil(crate::BRANCH_BYTES);
        let branches = (0..branches).map(|at| random.percent(50).then(|| id(at))).collect();
        let point = Point {
            name: "nightly".to_owned(),
            time: random.bits() as i64,
            volumes: vec![VolumePoint { branches, ..volume }],
        };
        let entries = [
            Entry::Begin { label: "a label".to_owned() },
            Entry::Point { session, point },
            Entry::Alive(session),
            Entry::End(session),
            Entry::Fence(session),
            Entry::Forget(vec![random.bits(), 3]),
            Entry::Condemn(packs.clone()),
            Entry::Sweep { kept: packs.clone() },
            Entry::Deleted(packs.clone()),
            Entry::Lost(packs),
        ];
        for entry in entries {
            let bytes = entry.encode();
            prop_assert_eq!(Entry::parse(&bytes), Ok(entry));
            prop_assert!(Entry::parse(&bytes[..bytes.len() - 1]).is_err());
            prop_assert!(Entry::parse(&[&bytes[..], &[0]].concat()).is_err());
        }
    }
}

#[test]
fn names_of_packs_and_vaults_have_one_text() {
    let name = PackName {
        session: SessionId(0x1234),
        count: 7,
    };
    assert_eq!(PackName::parse("0000000000001234-00000007"), Some(name));
    for other in [
        "1234-7",
        "+000000000001234-00000007",
        "0000000000001234",
        "0000000000001234-0000000G",
    ] {
        assert_eq!(PackName::parse(other), None, "{other}");
    }
    let vault = VaultId([0xab; 16]);
    assert_eq!(VaultId::parse(&vault.to_string()), Some(vault));
    assert_eq!(VaultId::parse("abab"), None);
}

#[test]
fn a_key_opens_by_its_passphrase_alone_and_damage_is_no_wrong_passphrase() {
    let vault = VaultId([5; 16]);
    let master = zeroize::Zeroizing::new([9; 32]);
    let slot = KeySlot::seal(vault, &master, PASSPHRASE, CHEAP).unwrap();
    assert_eq!(slot.open(PASSPHRASE).unwrap().as_deref(), Some(&[9; 32]));
    assert!(slot.open(b"another").unwrap().is_none());
    for at in 0..slot.bytes().len() {
        let mut bytes = slot.bytes().to_vec();
        bytes[at] ^= 1;
        assert!(KeySlot::parse(&bytes).is_err(), "byte {at}");
    }
    assert!(KeySlot::parse(&slot.bytes()[1..]).is_err());
    let dear = Cost {
        memory_kib: u32::MAX,
        ..CHEAP
    };
    assert!(KeySlot::seal(vault, &master, PASSPHRASE, dear).is_err());
}

/// RFC 9106, 5.3, has associated data, which we do not use; this one is of the reference implementation's `test.c` (argon2id, version 19,
/// t=2, m=2^16, p=1, "password", "somesalt").
#[test]
fn argon2id_is_the_one_of_the_reference() {
    use argon2::{Algorithm, Argon2, Block, Params, Version};
    let params = Params::new(1 << 16, 2, 1, Some(32)).unwrap();
    let mut memory = vec![Block::new(); params.block_count()];
    let mut key = [0; 32];
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_into_with_memory(b"password", b"somesalt", &mut key, &mut memory[..])
        .unwrap();
    let text: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(text, "09316115d5cf24ed5a15a31a3ba326e5cf32edc24702987c02b6566f61913cf7");
}

#[test]
fn a_fenced_session_says_nothing_more() {
    let mut state = State::default();
    let begin = || Entry::Begin { label: String::new() };
    state.apply(begin()).unwrap();
    state.apply(begin()).unwrap();
    let (one, two) = (SessionId(1), SessionId(2));
    state.apply(Entry::Fence(one)).unwrap();
    let point = Point {
        name: String::new(),
        time: 0,
        volumes: Vec::new(),
    };
    let said = Entry::Point { session: one, point };
    assert_eq!(state.apply(said), Err(Refusal::Over(one)));
    assert_eq!(state.apply(Entry::Alive(one)), Err(Refusal::Over(one)));
    assert_eq!(state.number(), 3, "what is refused changes nothing");
    state.apply(Entry::Condemn(Vec::new())).unwrap();
    let sweep = || Entry::Sweep { kept: Vec::new() };
    assert_eq!(state.apply(sweep()), Err(Refusal::Open(two)));
    state.apply(Entry::End(two)).unwrap();
    // It began later: it is no hindrance.
    state.apply(begin()).unwrap();
    state.apply(sweep()).unwrap();
    assert_eq!(state.apply(sweep()), Err(Refusal::NothingPending));
}

#[test]
fn who_says_nothing_is_silent_by_the_watchers_clock() {
    let mut state = State::default();
    state.apply(Entry::Begin { label: String::new() }).unwrap();
    let (mut watch, hour) = (Watch::default(), Duration::from_secs(3600));
    let one = SessionId(1);
    assert!(watch.look(&state, hour * 9, hour).is_empty(), "seen for the first time");
    assert!(watch.look(&state, hour * 9 + hour / 2, hour).is_empty());
    assert_eq!(watch.look(&state, hour * 10, hour), [one]);
    state.apply(Entry::Alive(one)).unwrap();
    assert!(watch.look(&state, hour * 11, hour).is_empty(), "it has said something");
    // A clock that goes back, which it must not, makes nobody silent.
    assert!(watch.look(&state, hour, hour).is_empty());
    assert_eq!(watch.look(&state, hour * 12, hour), [one]);
    state.apply(Entry::End(one)).unwrap();
    assert!(watch.look(&state, hour * 20, hour).is_empty());
}

/// As `docs/backup-format.md` has it: a volume that was not encrypted is written as before there were such that are.
#[test]
fn a_point_says_of_each_volume_whether_it_was_encrypted() {
    let of = |encrypted| {
        let volume = VolumePoint {
            identity: identity(1),
            bytes: 8192,
            encrypted,
            snapshot: (1, 1),
            parent: None,
            branches: vec![None],
        };
        let point = Point {
            name: "p".to_owned(),
            time: 0,
            volumes: vec![volume],
        };
        let session = SessionId(1);
        let entry = Entry::Point { session, point };
        let bytes = entry.encode();
        assert_eq!(Entry::parse(&bytes), Ok(entry));
        bytes
    };
    let (plain, sealed) = (of(false), of(true));
    let differing: Vec<usize> = (0..plain.len()).filter(|at| plain[*at] != sealed[*at]).collect();
    let [at] = differing[..] else { panic!("{differing:?}") };
    // 8192 and 8193 in LEB128.
    assert_eq!(plain[at..at + 2], [0x80, 0x40]);
    assert_eq!(sealed[at..at + 2], [0x81, 0x40]);
    let mut later = plain;
    later[at] = 0x82;
    assert!(
        Entry::parse(&later).is_err(),
        "what a later version says is not passed over"
    );
}
