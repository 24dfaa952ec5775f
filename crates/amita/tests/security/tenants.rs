//! A tenant's client against another tenant: with a certificate of its own, it says everything that there is to say.

use crate::attacker::{FABRIC, METADATA, NBD_ACK, NBD_GO, Nbd, Tls, nbd_name};
use crate::world::{World, stamped};
use amita_harness::cluster::identity;
use amita_identity::{CLIENT_LIFE, ClientTerms, Name, Role};
use amita_types::VolumeId;
use amita_types::capability::{Entry, Grant, Rights, Scope};
use std::path::{Path, PathBuf};

const MINE: &str = "volume-of-mine";
/// Another tenant's, and one that never was: names of one length.
const THEIRS: &str = "volume-of-bobs";
const NEVER: &str = "volume-of-none";
const BYTES: u64 = 8 << 20;

const EXPORT_NAME: u32 = 1;
const ABORT: u32 = 2;
const LIST: u32 = 3;
const STARTTLS: u32 = 5;
const LIST_META_CONTEXT: u32 = 9;
const SET_META_CONTEXT: u32 = 10;
const READ: u16 = 0;
const WRITE: u16 = 1;
const DISCONNECT: u16 = 2;

fn granted(world: &World, name: &str, volume: &str) -> PathBuf {
    let authority = world.cluster.authority().expect("a secure cluster");
    let volumes = world.json(&["volume", "list"]);
    let found = volumes
        .as_array()
        .into_iter()
        .flatten()
        .find(|found| found["name"] == volume);
    let number = found
        .and_then(|found| found["id"].as_u64())
        .expect("the volume's number");
    let entry = Entry {
        scope: Scope::Volume(VolumeId(number)),
        rights: Rights::ALL,
    };
    let terms = ClientTerms {
        grant: Grant::new("", vec![entry]).expect("a grant"),
        life: CLIENT_LIFE,
    };
    let full = Name::new(authority.cluster(), Role::Client, name).expect("a name");
    authority.grant(&full, &terms).expect("granted");
    identity(authority, world.folder(), Role::Client, name).expect("an identity")
}

fn with(folder: &Path) -> Tls<'_> {
    Tls {
        shows: Some(folder),
        protocol: &[],
        is_old: false,
    }
}

fn request(flags: u16, command: u16, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = 0x2560_9513u32.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(command.to_be_bytes());
    bytes.extend([7; 8]);
    bytes.extend(offset.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes
}

/// What a name's bytes are replaced by, so that answers about two names can be compared.
fn without(name: &str, bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace(name, "NAME")
}

/// Names of contexts behind a name, as `NBD_OPT_SET_META_CONTEXT` has them.
fn contexts(volume: &str) -> Vec<u8> {
    let mut data = (volume.len() as u32).to_be_bytes().to_vec();
    data.extend_from_slice(volume.as_bytes());
    data.extend(1u32.to_be_bytes());
    data.extend(15u32.to_be_bytes());
    data.extend_from_slice(b"base:allocation");
    data
}

/// What is said of the other's volume is what is said of one that never was, in every form that an option can have.
fn every_option(open: &dyn Fn() -> Nbd) {
    for option in (0..=32)
        .chain([u32::MAX])
        .filter(|option| ![ABORT, LIST, STARTTLS].contains(option))
    {
        type Form = fn(&str) -> Vec<u8>;
        let forms: [Form; 3] = [nbd_name, contexts, |name| name.as_bytes().to_vec()];
        for form in forms {
            let [theirs, never] = [THEIRS, NEVER].map(|name| {
                let mut nbd = open();
                match nbd.option(option, &form(name)) {
                    Some(replies) => {
                        let text = replies
                            .iter()
                            .map(|(kind, data)| format!("{kind} {}\n", without(name, data)));
                        text.collect::<String>()
                    }
                    None => "the end".to_owned(),
                }
            });
            assert_eq!(theirs, never, "option {option}");
            let is_about_volumes = ![LIST_META_CONTEXT, SET_META_CONTEXT, 8].contains(&option);
            assert!(
                !is_about_volumes || !theirs.starts_with(&format!("{NBD_ACK} ")),
                "option {option}: {theirs}"
            );
        }
    }
    // The one option that answers with what there is.
    let listed = open().option(LIST, &[]).expect("a list");
    let text: String = listed
        .iter()
        .map(|(_, data)| String::from_utf8_lossy(data).into_owned())
        .collect();
    assert!(text.contains(MINE) && !text.contains(THEIRS), "{text}");
    // The old way to open a volume ends without a word.
    for name in [THEIRS, NEVER] {
        let mut nbd = open();
        let mut said = b"IHAVEOPT".to_vec();
        said.extend(EXPORT_NAME.to_be_bytes());
        said.extend((name.len() as u32).to_be_bytes());
        said.extend_from_slice(name.as_bytes());
        nbd.say(&said);
        assert!(nbd.rest().is_empty(), "{name}");
    }
    // A volume that is not had is not had by a context that was selected for it either.
    let mut nbd = open();
    nbd.option(8, &[]);
    nbd.option(SET_META_CONTEXT, &contexts(THEIRS));
    let last = nbd.option(NBD_GO, &nbd_name(THEIRS)).expect("an answer").pop();
    assert_ne!(last.map(|reply| reply.0), Some(NBD_ACK));
}

/// With a volume of its own open, no request reaches beyond it.
fn every_command(open: &dyn Fn() -> Nbd) {
    let opened = || {
        let mut nbd = open();
        let last = nbd.option(NBD_GO, &nbd_name(MINE)).expect("an answer").pop();
        assert_eq!(last.map(|reply| reply.0), Some(NBD_ACK));
        nbd
    };
    let mut nbd = opened();
    let places = [BYTES - 1, BYTES, BYTES + 4096, u64::MAX - 4096, u64::MAX];
    let commands = (0..=64u16)
        .chain([u16::MAX])
        .filter(|command| ![WRITE, DISCONNECT].contains(command));
    for command in commands {
        for offset in places {
            for (flags, length) in [(0, 4096), (0, u32::MAX), (u16::MAX, 4096)] {
                let answer = nbd.command(&request(flags, command, offset, length), 0);
                match answer {
                    // A flush has no place, and is refused with one; caching reads what is there.
                    Some((error, _)) => assert_ne!(error, 0, "command {command} at {offset}"),
                    None => nbd = opened(),
                }
            }
        }
    }
    for offset in places {
        let whole = [request(0, WRITE, offset, 4096), vec![0xee; 4096]].concat();
        match nbd.command(&whole, 0) {
            Some((error, _)) => assert_ne!(error, 0, "a write at {offset}"),
            None => nbd = opened(),
        }
    }
    // And its own is its own all the same.
    let mut nbd = opened();
    let whole = [request(0, WRITE, 4096, 4096), stamped(4096, 1)].concat();
    assert_eq!(nbd.command(&whole, 0), Some((0, Vec::new())));
    assert_eq!(
        nbd.command(&request(0, READ, 4096, 4096), 4096),
        Some((0, stamped(4096, 1)))
    );
}

#[test]
fn a_tenants_client_that_says_everything_finds_and_changes_nothing_of_anothers() {
    let world = World::with_volume();
    for name in [MINE, THEIRS] {
        world.amita_done(&["volume", "create", name, "--pool", "demo", "--size", "8M"]);
    }
    // By the same road: what is exported to anybody is offered to this client too, and is not the matter here.
    world.amita_done(&["nbd", "unexport", crate::world::VOLUME]);
    let [mine, theirs] = [("ann", MINE), ("bob", THEIRS)].map(|(name, volume)| granted(&world, name, volume));
    let nodes: Vec<_> = world
        .cluster
        .nodes()
        .iter()
        .map(|node| (node.nbd, node.fabric))
        .collect();
    let mut bob = with(&theirs).nbd(nodes[0].0, THEIRS);
    for block in 0..16 {
        let whole = [request(0, WRITE, block * 4096, 4096), stamped(block * 4096, 9)].concat();
        assert_eq!(bob.command(&whole, 0), Some((0, Vec::new())));
    }
    let record = || {
        let volumes = world.json(&["volume", "list"]);
        let found = volumes
            .as_array()
            .into_iter()
            .flatten()
            .find(|found| found["name"] == THEIRS);
        found.expect("it is there").clone()
    };
    let before = record();
    for (nbd, fabric) in &nodes {
        let open = || with(&mine).nbd_begun(*nbd);
        if *nbd == nodes[0].0 {
            every_option(&open);
            every_command(&open);
        }
        let last = open().option(NBD_GO, &nbd_name(THEIRS)).expect("an answer").pop();
        assert_ne!(last.map(|reply| reply.0), Some(NBD_ACK), "at {nbd}");
        // The other doors are shut for it.
        let tls = Tls {
            protocol: FABRIC,
            ..with(&mine)
        };
        let told = tls.told(*fabric, b"anything");
        assert!(told.is_refused(), "{told:?}");
    }
    let tls = Tls {
        protocol: METADATA,
        ..with(&mine)
    };
    let metadata = world.cluster.metadata_address().expect("an address");
    let told = tls.told(metadata, crate::attacker::HTTP2_PREFACE);
    assert!(told.is_refused(), "{told:?}");
    // Nothing has become of the other: its volume, its owner, its connection, its data.
    assert_eq!(record(), before);
    for block in 0..16 {
        let read = bob.command(&request(0, READ, block * 4096, 4096), 4096);
        assert!(read == Some((0, stamped(block * 4096, 9))), "block {block}");
    }
    world.end(&["connection", "was not let in", "is let in nowhere", "could not prove"]);
}
