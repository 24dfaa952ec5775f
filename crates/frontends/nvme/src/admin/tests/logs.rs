use super::layout::{error_entry, smart};
use super::*;
use crate::failure::Failures;

const ALL: u32 = u32::MAX;

/// Get Log Page with so many bytes, from an offset.
pub fn log(id: u32, nsid: u32, length: usize, offset: u64) -> Command {
    let dwords = (length / 4 - 1) as u32;
    command(
        0x02,
        nsid,
        &[
            (10, id | dwords << 16),
            (11, dwords >> 16),
            (12, offset as u32),
            (13, (offset >> 32) as u32),
        ],
    )
}

fn with(mut command: Command, dword: usize, bits: u32) -> Command {
    let value = command.dword(dword) | bits;
    command.0[4 * dword..4 * dword + 4].copy_from_slice(&value.to_le_bytes());
    command
}

#[test]
fn log_pages_that_are_not_there() {
    let io = [0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x0c, 0x12, 0x13, 0x80];
    let discovery = [0x00, 0x01, 0x70];
    for (kind, known) in [(Kind::Io, &io[..]), (Kind::Discovery, &discovery[..])] {
        let mut admin = ready(kind);
        let supported = data(&mut admin, &log(0, 0, 1024, 0));
        for id in 0..=255 {
            let is_known = known.contains(&id);
            assert_eq!(u32_at(&supported, id as usize * 4), u32::from(is_known), "log {id:#x}");
            if is_known {
                data(&mut admin, &log(id, 0, 64, 0));
            } else {
                assert_eq!(failure(&mut admin, &log(id, 0, 64, 0)), 0x109, "log {id:#x}");
            }
        }
    }
}

#[test]
fn lengths_and_offsets() {
    let mut admin = ready(Kind::Io);
    let whole = data(&mut admin, &log(0x05, ALL, 4096, 0));
    assert_eq!(data(&mut admin, &log(0x05, ALL, 4, 0)), whole[..4]);
    assert_eq!(data(&mut admin, &log(0x05, ALL, 100, 1020)), whole[1020..1120]);
    assert_eq!(
        data(&mut admin, &log(0x05, ALL, 8, 4096)),
        [0; 8],
        "the end is not behind the end"
    );
    let mut long = whole.clone();
    long.resize(8192, 0);
    assert_eq!(data(&mut admin, &log(0x05, ALL, 8192, 0)), long);
    assert_eq!(failure(&mut admin, &log(0x05, ALL, 8, 4100)), 0x002);
    assert_eq!(failure(&mut admin, &log(0x05, ALL, 8, 1 << 32)), 0x002);
    assert_eq!(failure(&mut admin, &log(0x05, ALL, 8, u64::MAX - 3)), 0x002);
    for offset in [1, 2, 3] {
        assert_eq!(
            failure(&mut admin, &log(0x05, ALL, 8, offset)),
            0x002,
            "offset {offset}"
        );
    }
    assert_eq!(data(&mut admin, &log(0x05, ALL, 1 << 20, 0)).len(), 1 << 20);
    assert_eq!(
        failure(&mut admin, &log(0x05, ALL, (1 << 20) + 4, 0)),
        0x002,
        "more than MDTS"
    );
    let all_ones = command(0x02, ALL, &[(10, 0xffff_0005), (11, 0xffff)]);
    assert_eq!(failure(&mut admin, &all_ones), 0x002, "16 GiB");
    assert_eq!(
        failure(&mut admin, &with(log(0x05, ALL, 64, 0), 14, 1 << 23)),
        0x002,
        "an index offset"
    );
}

#[test]
fn errors_are_kept() {
    let mut admin = ready(Kind::Io);
    for nsid in 0..70u32 {
        failure(&mut admin, &command(0xee, nsid, &[]));
    }
    let page = data(&mut admin, &log(1, 0, 64 * 64, 0));
    let layout = error_entry();
    for (index, entry) in page.chunks(64).enumerate() {
        let get = |name| layout.get(entry, name);
        assert_eq!(get("error_count"), 70 - index as u128, "the newest first");
        assert_eq!(get("nsid"), 69 - index as u128);
        assert_eq!(get("cmdid"), 0x1234);
        assert_eq!(get("status_field"), 1 << 1 | 1 << 14 | 1 << 15, "more, do not retry");
        assert_eq!(get("parm_error_location"), 0, "the opcode");
        assert_eq!((get("trtype"), get("opcode"), get("version")), (0, 0xee, 1));
    }
    let smart_page = data(&mut admin, &log(2, ALL, 512, 0));
    assert_eq!(smart().get(&smart_page, "num_err_log_entries"), 70);
}

/// NVM Express Base 2.1, 5.1.12.1.2, "TRTYPE": "if the error is not transport related, then this field should be cleared".
#[test]
fn only_errors_of_the_transport_name_it() {
    let mut admin = ready(Kind::Io);
    let of = |status| Failure::of(1, &command(0x01, 1, &[]), status, None);
    let mut failures = Failures::default();
    for status in [
        Status::new(0, 0x80, true),
        Status::new(0, 0x83, true),
        Status::new(0, 0x22, false),
    ] {
        failures.push(of(status));
    }
    let page = log(1, 0, 64 * 64, 0);
    assert_eq!(admin.execute(NOW, &page, &[]), Turn::Ask(Question::Failures));
    let reply = admin.answer(&page, Answer::Failures(failures));
    let layout = error_entry();
    let kinds = [0, 1, 2].map(|index| layout.get(&reply.data[64 * index..64 * (index + 1)], "trtype"));
    assert_eq!(
        kinds,
        [3, 0, 0],
        "a transport error, a reservation conflict, an LBA out of range"
    );
}

/// NVM Express Base 2.1, 5.1.12.1.2: what failed on I/O queues is among the entries, each with a count of its own; and
/// 5.1.12.1.3: the health log has counted all, also what had no room.
#[test]
fn errors_of_io_queues_are_told() {
    let mut admin = ready(Kind::Io);
    failure(&mut admin, &command(0xee, 0, &[]));
    let page = log(1, 0, 64 * 64, 0);
    let of_queue = |number: u16| Failure {
        command: number,
        ..Failure::of(3, &command(0x02, 5, &[(10, 77)]), Status::new(0, 0x80, true), None)
    };
    let mut failures = Failures::default();
    (0..2).for_each(|number| failures.push(of_queue(number)));
    assert_eq!(admin.execute(NOW, &page, &[]), Turn::Ask(Question::Failures));
    let reply = admin.answer(&page, Answer::Failures(failures));
    assert_eq!(reply.status, Status::SUCCESS);
    let layout = error_entry();
    let get = |index: usize, name| layout.get(&reply.data[64 * index..64 * (index + 1)], name);
    assert_eq!([0, 1, 2, 3].map(|index| get(index, "error_count")), [3, 2, 1, 0]);
    assert_eq!([0, 1, 2].map(|index| get(index, "sqid")), [3, 3, 0]);
    assert_eq!([0, 1].map(|index| get(index, "cmdid")), [1, 0]);
    assert_eq!((get(0, "lba"), get(0, "nsid"), get(0, "opcode")), (77, 5, 2));
    assert_eq!(get(0, "status_field"), 0x80 << 1 | 1 << 14 | 1 << 15);
    assert_eq!(get(0, "parm_error_location"), 40);

    let mut failures = Failures::default();
    (0..100).for_each(|number| failures.push(of_queue(number)));
    let health = log(2, ALL, 512, 0);
    assert_eq!(admin.execute(NOW, &health, &[]), Turn::Ask(Question::Failures));
    let reply = admin.answer(&health, Answer::Failures(failures));
    assert_eq!(smart().get(&reply.data, "num_err_log_entries"), 103);
    let entries = data(&mut admin, &page);
    assert_eq!(layout.get(&entries[..64], "error_count"), 103);
    assert_eq!(layout.get(&entries[63 * 64..], "error_count"), 40);
}

#[test]
fn only_the_pages_of_errors_ask_the_register() {
    let mut admin = ready(Kind::Io);
    for id in [0x00, 0x03, 0x04, 0x05, 0x0c, 0x80] {
        let turn = admin.execute(NOW, &log(id, ALL, 64, 0), &[]);
        assert!(matches!(turn, Turn::Reply(_)), "log {id:#x}: {turn:?}");
    }
    // A discovery controller has no I/O queues.
    let turn = ready(Kind::Discovery).execute(NOW, &log(1, 0, 64, 0), &[]);
    assert!(matches!(turn, Turn::Reply(_)), "{turn:?}");
}

#[test]
fn health_counts_what_was_done() {
    let mut admin = ready(Kind::Io);
    let page = data(&mut admin, &log(2, ALL, 512, 0));
    smart().assert_only(&page, &["avail_spare"]);
    admin.session().shared.count(Counters {
        reads: 3,
        read_bytes: 512_001,
        writes: 2,
        written_bytes: 512_000,
        media_errors: 1,
    });
    let page = data(&mut admin, &log(2, 0, 512, 0));
    let get = |name| smart().get(&page, name);
    assert_eq!((get("host_reads"), get("data_units_read")), (3, 2), "rounded up");
    assert_eq!((get("host_writes"), get("data_units_written")), (2, 1));
    assert_eq!(get("media_errors"), 1);
    assert_eq!(get("avail_spare"), 100);
    assert_eq!(
        failure(&mut admin, &log(2, 1, 512, 0)),
        0x002,
        "there is none of a namespace"
    );
}

#[test]
fn the_firmware_is_this_one() {
    let page = data(&mut ready(Kind::Io), &log(3, 0, 512, 0));
    assert_eq!(page[0], 1);
    let revision = std::str::from_utf8(&page[8..16]).unwrap();
    assert_eq!(revision.trim_end(), env!("CARGO_PKG_VERSION"));
    assert!(page[16..].iter().all(|byte| *byte == 0));
}

/// What the effects log says is supported is carried out, and nothing else is.
#[test]
fn the_effects_log_agrees_with_what_is_carried_out() {
    let mut admin = ready(Kind::Io);
    let page = data(&mut admin, &log(5, ALL, 4096, 0));
    for opcode in 0..=255u8 {
        let effects = u32_at(&page, usize::from(opcode) * 4);
        let refused = match turn(&mut admin, &command(opcode, 0, &[(10, 1)]), &[]) {
            Turn::Reply(reply) => reply.status == Status::new(0, 1, true),
            _ => false,
        };
        assert_eq!(effects & 1 == 0, refused, "admin opcode {opcode:#x}");
    }
    let io: Vec<_> = (0..=255)
        .filter(|opcode| u32_at(&page, 1024 + opcode * 4) & 1 == 1)
        .collect();
    assert_eq!(
        io,
        [0x00, 0x01, 0x02, 0x05, 0x08, 0x09, 0x0c, 0x0d, 0x0e, 0x11, 0x15, 0x19],
        "all that ONCS promises, and no Write Uncorrectable (04h)"
    );
    let changes: Vec<_> = (0..=255)
        .filter(|opcode| u32_at(&page, 1024 + opcode * 4) & 2 != 0)
        .collect();
    assert_eq!(changes, [0x01, 0x08, 0x09, 0x19]);
    assert!(page[2048..].iter().all(|byte| *byte == 0));
    assert_eq!(failure(&mut admin, &with(log(5, ALL, 4096, 0), 14, 2 << 24)), 0x12c);
}

#[test]
fn the_features_log_agrees_with_what_can_be_read() {
    let mut admin = ready(Kind::Io);
    let page = data(&mut admin, &log(0x12, 0, 1024, 0));
    for id in 0..=255u32 {
        let effects = u32_at(&page, id as usize * 4);
        let capabilities = reply(&mut admin, &command(0x0a, 1, &[(10, id | 3 << 8)]));
        assert_eq!(
            effects & 1 == 1,
            capabilities.status == Status::SUCCESS,
            "feature {id:#x}"
        );
        if effects != 0 {
            let of_namespace = capabilities.result >> 1 & 1 == 1;
            assert_eq!(effects >> 20, if of_namespace { 1 } else { 2 }, "the scope of {id:#x}");
        }
    }
    assert!(data(&mut admin, &log(0x13, 0, 1024, 0)).iter().all(|byte| *byte == 0));
}

/// Groups of an ANA log page: number, namespaces, change count, state.
fn groups(page: &[u8], listed: bool) -> Vec<(u32, Vec<u32>, u64, u8)> {
    let mut at = 16;
    let mut found = Vec::new();
    for _ in 0..u16_at(page, 8) {
        let count = u32_at(page, at + 4) as usize;
        assert_eq!(count, usize::from(listed));
        let namespaces = (0..count).map(|index| u32_at(page, at + 32 + 4 * index)).collect();
        assert!(page[at + 17..at + 32].iter().all(|byte| *byte == 0));
        found.push((u32_at(page, at), namespaces, u64_at(page, at + 8), page[at + 16]));
        at += 32 + 4 * count;
    }
    assert!(page[at..].iter().all(|byte| *byte == 0));
    found
}

#[test]
fn ana_groups_and_their_changes() {
    let mut admin = ready(Kind::Io);
    let before = data(&mut admin, &log(0x0c, ALL, 4096, 0));
    assert_eq!(u64_at(&before, 0), 7);
    let all = [1, 2, 5].map(|nsid| (nsid, vec![nsid], 7, 1));
    assert_eq!(groups(&before, true), all);
    let only = data(&mut admin, &with(log(0x0c, ALL, 4096, 0), 10, 1 << 8));
    assert_eq!(
        groups(&only, false),
        all.map(|(group, _, count, state)| (group, vec![], count, state))
    );

    admin.settings(&changed(&catalog(), |subsystem| {
        subsystem.ana_changes = 9;
        subsystem.namespaces[1] = Arc::new(Namespace {
            ana: Ana::Change,
            ..namespace(2)
        });
        subsystem.namespaces[2] = Arc::new(Namespace {
            ana: Ana::Inaccessible,
            ..namespace(5)
        });
    }));
    let after = data(&mut admin, &log(0x0c, ALL, 4096, 0));
    assert_eq!(u64_at(&after, 0), 9);
    assert_eq!(
        groups(&after, true),
        [(1, vec![1], 7, 1), (2, vec![2], 9, 15), (5, vec![5], 9, 3)]
    );
}

/// Linux makes room for all groups and namespaces in one transfer, and does without ANA when it does not fit.
#[test]
fn the_largest_ana_log_fits_a_transfer() {
    let longest = 16 + 1024 * 32 + 1024 * 4;
    assert!(longest <= Limits::default().transfer_bytes as usize);
    let all = (1..=1024).map(namespace).collect();
    let catalog = Arc::new(catalog_of(vec![subsystem(NQN, &[1], all)]));
    let page = data(
        &mut ready_with(session(Kind::Io), &catalog),
        &log(0x0c, ALL, longest, 0),
    );
    assert_eq!(groups(&page, true).len(), 1024);
}
