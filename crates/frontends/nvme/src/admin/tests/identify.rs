use super::layout::{id_ctrl, id_ns, id_ns_independent};
use super::*;
use crate::queue::Target;
use amita_types::MAX_IO_BYTES;

fn identify(cns: u32, nsid: u32) -> Command {
    command(0x06, nsid, &[(10, cns)])
}

fn of_set(cns: u32, nsid: u32, csi: u32) -> Command {
    command(0x06, nsid, &[(10, cns), (11, csi << 24)])
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn an_io_controller_says_what_it_can() {
    let page = data(&mut ready(Kind::Io), &identify(1, 0));
    let layout = id_ctrl();
    let get = |name| layout.get(&page, name);
    assert_eq!(text(layout.bytes(&page, "sn")), "AMITA0001           ");
    assert_eq!(text(layout.bytes(&page, "mn")).trim_end(), "Amita");
    assert_eq!(text(layout.bytes(&page, "fr")).trim_end(), env!("CARGO_PKG_VERSION"));
    assert_eq!(text(layout.bytes(&page, "subnqn")).trim_end_matches('\0'), NQN);
    assert_eq!(get("cmic"), 0b1011, "ports, controllers, ANA");
    assert_eq!(4096 << get("mdts"), 1 << 20);
    assert_eq!(get("cntlid"), 65);
    assert_eq!(get("ver"), 0x2_0100);
    assert_eq!(get("oaes"), 1 << 8 | 1 << 11);
    assert_eq!(get("ctratt"), 0x01);
    assert_eq!(get("cntrltype"), 1);
    assert_eq!(get("acl"), 3);
    assert_eq!(get("aerl"), 3);
    assert_eq!(get("frmw"), 0x03);
    assert_eq!(get("lpa"), 0x26);
    assert_eq!(get("elpe"), 63);
    assert_eq!(get("kas"), 10);
    assert_eq!(get("anatt"), 10);
    assert_eq!(get("anacap"), 0x57);
    assert_eq!((get("anagrpmax"), get("nanagrpid")), (1024, 1024));
    assert_eq!((get("nn"), get("mnan")), (1024, 1024));
    assert_eq!((get("sqes"), get("cqes")), (0x66, 0x44));
    assert_eq!(get("maxcmd"), 1024);
    assert_eq!(get("oncs"), 0x1bd);
    assert_eq!(get("fuses"), 1);
    assert_eq!(get("vwc"), 0b110, "no cache; Flush may be for all namespaces");
    assert_eq!(get("cdfs"), 1);
    assert_eq!(get("sgls") & 3, 1);
    assert_eq!(get("ioccsz"), (64 + 16384) / 16);
    assert_eq!(get("iorcsz"), 1);
    assert_eq!(get("msdbd"), 1);
    layout.assert_only(
        &page,
        &[
            "sn",
            "mn",
            "fr",
            "cmic",
            "mdts",
            "cntlid",
            "ver",
            "oaes",
            "ctratt",
            "cntrltype",
            "acl",
            "aerl",
            "frmw",
            "lpa",
            "elpe",
            "kas",
            "anatt",
            "anacap",
            "anagrpmax",
            "nanagrpid",
            "sqes",
            "cqes",
            "maxcmd",
            "nn",
            "oncs",
            "fuses",
            "vwc",
            "cdfs",
            "sgls",
            "mnan",
            "subnqn",
            "ioccsz",
            "iorcsz",
            "msdbd",
        ],
    );
}

#[test]
fn what_the_transport_can_is_told_as_it_is() {
    let mut session = session(Kind::Io);
    session.limits = Limits {
        queue_entries: 128,
        transfer_bytes: 256 << 10,
        capsule_data_bytes: 8192,
        disconnect: true,
        ..Limits::default()
    };
    let mut admin = ready_with(session, &Arc::new(catalog()));
    let page = data(&mut admin, &identify(1, 0));
    let layout = id_ctrl();
    assert_eq!(layout.get(&page, "maxcmd"), 128);
    assert_eq!(4096 << layout.get(&page, "mdts"), 256 << 10);
    assert_eq!(layout.get(&page, "ioccsz"), (64 + 8192) / 16);
    assert_eq!(layout.get(&page, "ofcs"), 1);
    assert_eq!(admin.property_get(0, 8).unwrap() & 0xffff, 127);
}

#[test]
fn a_discovery_controller_says_less() {
    let mut admin = ready(Kind::Discovery);
    let page = data(&mut admin, &identify(1, 0));
    let layout = id_ctrl();
    assert_eq!(layout.get(&page, "cntrltype"), 2);
    assert_eq!(layout.get(&page, "dctype"), 1);
    assert_eq!(layout.get(&page, "oaes"), 1 << 31);
    assert_eq!(
        text(layout.bytes(&page, "subnqn")).trim_end_matches('\0'),
        "nqn.2026-01.io.amita:discovery",
        "the unique name, though the host came by the well-known one"
    );
    let serial = text(layout.bytes(&page, "sn"));
    let of_name = amita_types::crc32c(b"nqn.2026-01.io.amita:discovery");
    assert_eq!(serial.trim_end(), format!("{of_name:08X}"), "the same at every gateway");
    layout.assert_only(
        &page,
        &[
            "sn",
            "mn",
            "fr",
            "mdts",
            "cntlid",
            "ver",
            "oaes",
            "ctratt",
            "cntrltype",
            "aerl",
            "lpa",
            "elpe",
            "kas",
            "maxcmd",
            "sgls",
            "subnqn",
            "dctype",
        ],
    );
    for cns in (0..=255).filter(|cns| *cns != 1) {
        assert_eq!(failure(&mut admin, &identify(cns, 1)), 0x002, "CNS {cns:#x}");
    }
}

#[test]
fn a_namespace_of_4_kib_blocks() {
    let page = data(&mut ready(Kind::Io), &identify(0, 2));
    let layout = id_ns();
    let get = |name| layout.get(&page, name);
    let blocks = (1 << 30) / 4096;
    assert_eq!((get("nsze"), get("ncap"), get("nuse")), (blocks, blocks, blocks));
    assert_eq!(get("nsfeat"), 0b1_1010);
    assert_eq!((get("nlbaf"), get("flbas")), (0, 0));
    assert_eq!(get("nmic"), 1);
    assert_eq!(get("rescap"), 0xff);
    assert_eq!(get("dlfeat"), 0b1001);
    assert_eq!(get("nawun") + 1, 32, "128 KiB");
    assert_eq!(get("nawupf") + 1, 32);
    assert_eq!(get("nacwu") + 1, 16, "64 KiB");
    assert_eq!(get("nabsn") + 1, 32, "as long as the unit");
    assert_eq!(get("nabspf") + 1, 32);
    assert_eq!(get("nabo"), 0);
    assert_eq!(get("noiob"), 1024);
    assert_eq!(get("nvmcap"), 1 << 30);
    assert_eq!((get("npwg"), get("npwa"), get("npdg"), get("npda")), (0, 0, 0, 0));
    assert_eq!(get("nows") + 1, 32);
    assert_eq!((get("mssrl"), get("mcl"), get("msrc")), (256, 256, 127));
    assert_eq!(get("anagrpid"), 2);
    assert_eq!(layout.bytes(&page, "nguid"), [0xb2; 16]);
    assert_eq!((get("lbaf0.ms"), get("lbaf0.ds"), get("lbaf0.rp")), (0, 12, 0));
}

#[test]
fn a_namespace_of_512_byte_blocks() {
    let catalog = changed(&catalog(), |subsystem| {
        let mut small = namespace(1);
        small.block_bytes = 512;
        subsystem.namespaces[0] = Arc::new(small);
    });
    let page = data(&mut ready_with(session(Kind::Io), &catalog), &identify(0, 1));
    let layout = id_ns();
    let get = |name| layout.get(&page, name);
    assert_eq!(get("nsze"), (1 << 30) / 512);
    assert_eq!(get("lbaf0.ds"), 9);
    assert_eq!((get("npwg"), get("npwa"), get("npdg"), get("npda")), (7, 7, 7, 7));
    assert_eq!((get("nawun") + 1, get("nawupf") + 1), (256, 256));
    assert_eq!((get("nabsn") + 1, get("nabspf") + 1, get("nabo")), (256, 256, 0));
    assert_eq!(get("nacwu") + 1, 128);
    assert_eq!(get("noiob"), 8192);
    assert_eq!((get("mssrl"), get("mcl")), (2048, 2048));
}

/// NVM Command Set 1.1, 4.1.5.1, and NVM Express Base 2.1, 5.1.13.2.8: NSATTR says that it is write protected, in both structures.
#[test]
fn a_snapshot_is_write_protected_and_cannot_be_reserved() {
    let catalog = changed(&catalog(), |subsystem| {
        let mut snapshot = namespace(2);
        snapshot.snapshot = SnapshotId(3);
        subsystem.namespaces[1] = Arc::new(snapshot);
    });
    let mut admin = ready_with(session(Kind::Io), &catalog);
    for (nsid, protected) in [(1, 0), (2, 1)] {
        let page = data(&mut admin, &identify(0, nsid));
        assert_eq!(id_ns().get(&page, "nsattr"), protected);
        assert_eq!(id_ns().get(&page, "rescap"), if protected == 1 { 0 } else { 0xff });
        let page = data(&mut admin, &identify(8, nsid));
        let get = |name| id_ns_independent().get(&page, name);
        assert_eq!(
            (get("nsattr"), get("rescap")),
            (protected, if protected == 1 { 0 } else { 0xff })
        );
    }
    // Persistence through power loss, of a reservation that there cannot be.
    let get = command(0x0a, 2, &[(10, 0x83)]);
    assert_eq!(failure(&mut admin, &get), 0x002);
    let set = command(0x09, 2, &[(10, 0x83), (11, 1)]);
    assert_eq!(failure(&mut admin, &set), 0x002);
}

/// NVM Command Set 1.1, 2.1.4: a range of at most NAWUN blocks that crosses no boundary of NABSN is one piece of I/O,
/// wherever in a 4 KiB block it begins and ends; and no other command, wherever it begins, is cut in the midst of one.
#[test]
fn the_atomic_sizes_are_true() {
    let chunks = [4096u32, 64 << 10, 4 << 20, 32 << 20, 64 << 20, 1 << 30];
    for (block_bytes, chunk_bytes) in [512, 4096].into_iter().flat_map(|b| chunks.map(|c| (b, c))) {
        let catalog = changed(&catalog(), |subsystem| {
            subsystem.namespaces[0] = Arc::new(Namespace {
                block_bytes,
                chunk_bytes,
                size_bytes: 4 << 30,
                ..namespace(1)
            });
        });
        let page = data(&mut ready_with(session(Kind::Io), &catalog), &identify(0, 1));
        let layout = id_ns();
        let block = u64::from(block_bytes);
        let bytes = |field| (layout.get(&page, field) as u64 + 1) * block;
        let (atomic, boundary, compare) = (bytes("nawun"), bytes("nabsn"), bytes("nacwu"));
        assert_eq!((atomic, boundary), (bytes("nawupf"), bytes("nabspf")));
        assert_eq!(layout.get(&page, "nabo"), 0);
        assert!(u64::from(chunk_bytes).is_multiple_of(boundary), "{chunk_bytes}");
        assert!(atomic <= boundary && compare <= boundary && compare <= u64::from(MAX_IO_BYTES / 2));
        let pieces = |offset: u64, length: u64| {
            let target = Target {
                source: VolumeId(1).into(),
                chunk_bytes,
                offset,
            };
            target.pieces(length as u32)
        };
        let mut offsets = (0..boundary).step_by(block_bytes as usize);
        assert!(offsets.all(|offset| pieces(offset, boundary - offset).count() == 1));
        for start in (0..boundary).step_by(block_bytes as usize) {
            let mut cuts = pieces(start, 1 << 20).skip(1).map(|piece| piece.offset);
            assert!(cuts.all(|cut| cut.is_multiple_of(boundary)), "from {start}");
        }
    }
}

fn list(page: &[u8]) -> Vec<u16> {
    let count = usize::from(u16_at(page, 0));
    assert!(page[2 + 2 * count..].iter().all(|byte| *byte == 0));
    (0..count).map(|index| u16_at(page, 2 + 2 * index)).collect()
}

/// NVM Express Base 2.1, 5.1.13.2.9 and 5.1.13.2.10: lists of controllers, from CNTID on.
#[test]
fn lists_of_controllers() {
    let mut admin = ready(Kind::Io);
    let from = |cns: u32, nsid, first: u32| command(0x06, nsid, &[(10, cns | first << 16)]);
    for (first, expected) in [(0, &[64, 65, 70][..]), (65, &[65, 70]), (71, &[]), (0xffff, &[])] {
        assert_eq!(list(&data(&mut admin, &from(0x13, 0, first))), expected);
        assert_eq!(list(&data(&mut admin, &from(0x12, 2, first))), expected);
    }
    assert!(
        list(&data(&mut admin, &from(0x12, 3, 0))).is_empty(),
        "namespace 3 is not there"
    );
    assert_eq!(failure(&mut admin, &from(0x12, 0, 0)), 0x00b);
    assert_eq!(failure(&mut admin, &from(0x12, 1025, 0)), 0x00b);
    assert_eq!(failure(&mut admin, &from(0x12, u32::MAX, 0)), 0x002);
    for cns in [0x12, 0x13] {
        assert_eq!(failure(&mut ready(Kind::Discovery), &from(cns, 1, 0)), 0x002);
    }
    let many = command(0x06, 0, &[(10, 0x13)]);
    assert_eq!(admin.execute(NOW, &many, &[]), Turn::Ask(Question::Controllers));
    let reply = admin.answer(&many, Answer::Controllers((0..3000).collect()));
    assert_eq!(
        list(&reply.data),
        (0..2047).collect::<Vec<_>>(),
        "what a page has room for"
    );
    admin.property_set(NOW, 0x14, 4, 0).unwrap();
    let late = admin.answer(&many, Answer::Controllers(vec![]));
    assert_eq!(late.status, COMMAND_SEQUENCE, "it was reset meanwhile");
}

#[test]
fn namespaces_that_are_not_there() {
    let mut admin = ready(Kind::Io);
    for cns in [0x00, 0x08, 0x11] {
        assert!(
            data(&mut admin, &identify(cns, 3)).iter().all(|byte| *byte == 0),
            "CNS {cns:#x}"
        );
        for nsid in [0, 1025, 0xffff_fffe, 0xffff_ffff] {
            assert_eq!(
                failure(&mut admin, &identify(cns, nsid)),
                0x00b,
                "CNS {cns:#x} of {nsid}"
            );
        }
    }
    for nsid in [0, 3, 1025, 0xffff_ffff] {
        assert_eq!(failure(&mut admin, &identify(3, nsid)), 0x00b, "descriptors of {nsid}");
    }
    assert!(data(&mut admin, &of_set(5, 3, 0)).iter().all(|byte| *byte == 0));
    assert_eq!(failure(&mut admin, &of_set(5, 0, 0)), 0x00b);
}

#[test]
fn lists_of_namespaces() {
    let mut admin = ready(Kind::Io);
    let list = |admin: &mut Admin, command: &Command| -> Vec<u32> {
        let page = data(admin, command);
        page.chunks(4)
            .map(|entry| u32_at(entry, 0))
            .take_while(|nsid| *nsid != 0)
            .collect()
    };
    for command in [identify(2, 0), identify(0x10, 0), of_set(7, 0, 0), of_set(0x1a, 0, 0)] {
        assert_eq!(list(&mut admin, &command), [1, 2, 5]);
    }
    assert_eq!(list(&mut admin, &identify(2, 1)), [2, 5]);
    assert_eq!(list(&mut admin, &identify(2, 2)), [5]);
    assert_eq!(list(&mut admin, &identify(2, 5)), [0; 0]);
    assert_eq!(list(&mut admin, &identify(2, 0xffff_fffd)), [0; 0]);
    for nsid in [0xffff_fffe, 0xffff_ffff] {
        assert_eq!(failure(&mut admin, &identify(2, nsid)), 0x00b);
        assert_eq!(failure(&mut admin, &of_set(7, nsid, 0)), 0x00b);
    }
}

#[test]
fn a_full_subsystem_fills_the_list_and_no_more() {
    let all = (1..=1030).map(namespace).collect();
    let mut admin = ready_with(
        session(Kind::Io),
        &Arc::new(catalog_of(vec![subsystem(NQN, &[1], all)])),
    );
    let page = data(&mut admin, &identify(2, 0));
    assert_eq!(u32_at(&page, 0), 1);
    assert_eq!(u32_at(&page, 4092), 1024);
    assert!(
        data(&mut admin, &identify(2, 1024)).iter().all(|byte| *byte == 0),
        "what nobody may number is not shown"
    );
}

#[test]
fn namespaces_that_cannot_be_described_are_not_shown() {
    let catalog = changed(&catalog(), |subsystem| {
        for (index, (block_bytes, chunk_bytes)) in [(0, 4 << 20), (4096, 0), (520, 4 << 20)].into_iter().enumerate() {
            subsystem.namespaces[index] = Arc::new(Namespace {
                block_bytes,
                chunk_bytes,
                ..namespace(subsystem.namespaces[index].nsid)
            });
        }
    });
    let mut admin = ready_with(session(Kind::Io), &catalog);
    assert!(data(&mut admin, &identify(2, 0)).iter().all(|byte| *byte == 0));
    assert!(data(&mut admin, &identify(0, 1)).iter().all(|byte| *byte == 0));
}

#[test]
fn identifiers_of_a_namespace() {
    let page = data(&mut ready(Kind::Io), &identify(3, 5));
    let mut rest = &page[..];
    let mut found = Vec::new();
    while rest[0] != 0 {
        let (kind, length) = (rest[0], usize::from(rest[1]));
        assert_eq!(&rest[2..4], [0, 0]);
        found.push((kind, rest[4..4 + length].to_vec()));
        rest = &rest[4 + length..];
    }
    assert_eq!(found, [(2, vec![0xb5; 16]), (3, vec![0xa5; 16]), (4, vec![0])]);
    assert!(rest.iter().all(|byte| *byte == 0));
}

#[test]
fn structures_of_command_sets() {
    let mut admin = ready(Kind::Io);
    let page = data(&mut admin, &identify(8, 2));
    let layout = id_ns_independent();
    assert_eq!(layout.get(&page, "nsfeat"), 1 << 3 | 1 << 5);
    assert_eq!(layout.get(&page, "nmic"), 1);
    assert_eq!(layout.get(&page, "rescap"), 0xff);
    assert_eq!(layout.get(&page, "anagrpid"), 2);
    assert_eq!(layout.get(&page, "nstat"), 1);
    layout.assert_only(&page, &["nsfeat", "nmic", "rescap", "anagrpid", "nstat"]);

    // Verify reads as much as a Read does; Write Zeroes takes as many blocks as a command can name, of the smallest size.
    let mdts = data(&mut admin, &identify(1, 0))[77];
    let limits = data(&mut admin, &of_set(6, 0, 0));
    assert_eq!(limits[0], mdts, "VSL");
    assert_eq!(4096_u64 << limits[1], 65_536 * 512, "WZSL");
    assert!(limits[2..].iter().all(|byte| *byte == 0));
    for cns in [5, 6, 7, 0x1a, 0x1b] {
        assert_eq!(
            failure(&mut admin, &of_set(cns, 1, 2)),
            0x12c,
            "zoned namespaces: CNS {cns:#x}"
        );
    }
    let sets = data(&mut admin, &identify(0x1c | 0xffff << 16, 0));
    assert_eq!(u64_at(&sets, 0), 1);
    assert!(sets[8..].iter().all(|byte| *byte == 0));
    assert_eq!(data(&mut admin, &identify(0x1c | 65 << 16, 0)), sets);
    assert_eq!(
        failure(&mut admin, &identify(0x1c | 66 << 16, 0)),
        0x002,
        "another controller's"
    );
}

#[test]
fn what_is_not_there_is_an_invalid_field() {
    let mut admin = ready(Kind::Io);
    let known = [
        0x00, 0x01, 0x02, 0x03, 0x05, 0x06, 0x07, 0x08, 0x10, 0x11, 0x12, 0x13, 0x1a, 0x1b, 0x1c,
    ];
    for cns in (0..=255).filter(|cns| !known.contains(cns)) {
        assert_eq!(failure(&mut admin, &identify(cns, 1)), 0x002, "CNS {cns:#x}");
    }
}

/// A subsystem that is taken away while a host is connected.
#[test]
fn without_its_subsystem_a_controller_is_empty() {
    let mut admin = ready(Kind::Io);
    admin.settings(&Arc::new(catalog_of(Vec::new())));
    assert!(admin.subsystem().is_none());
    assert!(data(&mut admin, &identify(2, 0)).iter().all(|byte| *byte == 0));
    assert!(data(&mut admin, &identify(0, 1)).iter().all(|byte| *byte == 0));
    let page = data(&mut admin, &identify(1, 0));
    assert_eq!(text(id_ctrl().bytes(&page, "subnqn")).trim_end_matches('\0'), NQN);
}
