use super::*;
use crate::sense::{Specific, Status};
use crate::testing::{Host, answer, ten};
use amita_types::SnapshotId;

fn short(page: u8, subpage: u8) -> [u8; 6] {
    [0x1a, 0x08, page, subpage, 255, 0]
}

#[test]
fn headers_and_block_descriptors() {
    let mut host = Host::one();
    let data = host.data(0, &[0x1a, 0, 0x08, 0, 255, 0]);
    assert_eq!(data[..12], [31, 0, 0x10, 8, 0, 2, 0, 0, 0, 0, 2, 0]);
    assert_eq!(data.len(), 4 + 8 + 20);
    let data = host.data(0, &[0x5a, 0, 0x08, 0, 0, 0, 0, 0, 255, 0]);
    assert_eq!(data[..8], [0, 34, 0, 0x10, 0, 0, 0, 8]);
    let data = host.data(0, &[0x5a, 0x10, 0x08, 0, 0, 0, 0, 0, 255, 0]);
    assert_eq!(data[..8], [0, 42, 0, 0x10, 1, 0, 0, 16]);
    assert_eq!(data[8..24], [0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0]);
    host.change(|unit| unit.snapshot = SnapshotId(1));
    assert_eq!(host.data(0, &short(0x08, 0))[2], 0x90, "write protected");
}

#[test]
fn pages_one_by_one_and_all() {
    let mut host = Host::one();
    assert_eq!(
        host.data(0, &short(0x08, 0))[4..8],
        [0x08, 0x12, 0, 0],
        "no write cache"
    );
    let control = [0x0a, 0x0a, 0x20, 0x10, 0, 0x40, 0, 0, 0xff, 0xff, 0, 0];
    assert_eq!(host.data(0, &short(0x0a, 0))[4..], control);
    assert_eq!(
        host.data(0, &short(0x1c, 0))[4..],
        [0x1c, 0x0a, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    );
    assert_eq!(host.data(0, &short(0x1c, 2))[4..8], [0x5c, 0x02, 0, 12]);
    let pages = |data: &[u8]| {
        let (mut found, mut at) = (Vec::new(), 4);
        while at < data.len() {
            let (page, length) = Page::of_header(&data[at..]).expect("a page");
            found.push((page.code, page.subpage));
            at += length;
        }
        assert_eq!(at, data.len());
        found
    };
    assert_eq!(
        pages(&host.data(0, &short(0x3f, 0))),
        [(1, 0), (8, 0), (10, 0), (0x1c, 0)]
    );
    assert_eq!(
        pages(&host.data(0, &short(0x3f, 0xff))),
        [(1, 0), (8, 0), (10, 0), (0x1c, 0), (0x1c, 2)]
    );
    assert_eq!(pages(&host.data(0, &short(0x1c, 0xff))), [(0x1c, 0), (0x1c, 2)]);
    assert_eq!(host.sense(0, &short(0x02, 0)), Sense::in_cdb(2, Some(5)));
    assert_eq!(host.sense(0, &short(0x0a, 1)), Sense::in_cdb(3, None));
    assert_eq!(host.sense(0, &short(0x3f, 1)), Sense::in_cdb(3, None));
    let saved = host.sense(0, &short(0xca, 0));
    assert_eq!(saved.code, code::SAVING_NOT_SUPPORTED);
}

#[test]
fn what_can_be_changed() {
    let mut host = Host::one();
    let changeable = host.data(0, &short(0x4a, 0));
    assert_eq!(changeable[4..], [0x0a, 0x0a, 0x04, 0, 0x08, 0, 0, 0, 0, 0, 0, 0]);
    for page in [0x41, 0x48, 0x5c] {
        let data = host.data(0, &short(page, 0));
        assert!(data[6..].iter().all(|byte| *byte == 0), "{page:x}");
    }
}

#[test]
fn thresholds_of_space() {
    let mut host = Host::one();
    host.change(|unit| {
        unit.space = Some(crate::unit::Space {
            used_bytes: 0,
            total_bytes: 100 << 30,
            warning_percent: 75,
        });
    });
    let data = host.data(0, &short(0x1c, 2));
    assert_eq!(data[4..8], [0x5c, 0x02, 0, 20]);
    assert_eq!(data[20..], [0x81, 2, 0, 0, 0, 0, 0, 75], "75 sets of 1 GiB");
    assert_eq!(host.data(0, &short(0x01, 0))[11], 0x80, "LBPERE");
}

fn select(host: &mut Host, list: &[u8]) -> Answer {
    answer(host.send_with(0, &[0x15, 0x10, 0, 0, list.len() as u8, 0], list))
}

fn control(flags: u8, protect: u8) -> Vec<u8> {
    let mut list = vec![0, 0, 0, 0];
    list.extend([0x0a, 0x0a, 0x20 | flags, 0x10, protect, 0x40, 0, 0, 0xff, 0xff, 0, 0]);
    list
}

#[test]
fn descriptor_sense_is_chosen_by_a_nexus() {
    let mut host = Host::one();
    let lun = crate::Lun::of(0);
    assert_eq!(host.nexus.format(lun), Format::Fixed);
    assert_eq!(select(&mut host, &control(0x04, 0)), Answer::good());
    assert_eq!(host.nexus.format(lun), Format::Descriptor);
    assert_eq!(host.data(0, &short(0x0a, 0))[6], 0x24);
    assert_eq!(host.data(0, &short(0x8a, 0))[6], 0x20, "the default stays");
    host.nexus.happened(None, crate::Happening::Reset);
    host.settle();
    assert_eq!(host.nexus.format(lun), Format::Fixed);
}

#[test]
fn a_nexus_protects_itself() {
    let mut host = Host::one();
    assert_eq!(select(&mut host, &control(0, 0x08)), Answer::good());
    assert_eq!(host.data(0, &short(0x08, 0))[2], 0x90);
    assert_eq!(host.sense(0, &ten(0x2a, 0, 0, 1)).code, code::SOFTWARE_WRITE_PROTECTED);
    assert_eq!(select(&mut host, &control(0, 0)), Answer::good());
    assert_eq!(answer_status(&mut host), None);
}

/// The status of a write, if it is refused.
fn answer_status(host: &mut Host) -> Option<Status> {
    match host.send(0, &ten(0x2a, 0, 0, 1)) {
        crate::Plan::Answer(answer) => Some(answer.status),
        _ => None,
    }
}

#[test]
fn what_a_mode_select_may_not() {
    let mut host = Host::one();
    let mut refused = |list: &[u8]| select(&mut host, list).sense.expect("refused");
    let mut list = control(0, 0);
    list[7] = 0x20;
    assert_eq!(refused(&list), Sense::in_list(7, Some(5)), "QUEUE ALGORITHM MODIFIER");
    assert_eq!(refused(&control(0x02, 0)), Sense::in_list(6, Some(1)), "GLTSD");
    let mut list = control(0, 0);
    list[5] = 9;
    assert_eq!(refused(&list), Sense::in_list(5, None), "another length");
    let short = refused(&control(0, 0)[..15]);
    assert_eq!(
        (short.code, short.specific),
        (code::PARAMETER_LIST_LENGTH, Specific::None)
    );
    assert_eq!(refused(&[0, 0, 0]).code, code::PARAMETER_LIST_LENGTH);
    assert_eq!(refused(&[0, 0, 0, 8, 0, 0]).code, code::PARAMETER_LIST_LENGTH);
    assert_eq!(refused(&[0, 1, 0, 0]), Sense::in_list(1, None), "a medium type");
    assert_eq!(refused(&[0, 0, 0, 4, 0, 0, 0, 0]), Sense::in_list(3, None));
    assert_eq!(
        refused(&[0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0x10, 0]),
        Sense::in_list(10, None),
        "4096 bytes"
    );
    assert_eq!(
        refused(&[0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 2, 0]),
        Sense::in_list(4, None),
        "another capacity"
    );
    assert_eq!(
        refused(&[0, 0, 0, 0, 0x02, 0]),
        Sense::in_list(4, Some(5)),
        "no such page"
    );
    // Nothing of a list is done when a part of it is wrong.
    let list = [control(0x04, 0), vec![0x02, 0]].concat();
    assert_eq!(refused(&list), Sense::in_list(16, Some(5)));
    assert_eq!(host.nexus.format(crate::Lun::of(0)), Format::Fixed);
    assert_eq!(
        host.sense(0, &[0x15, 0x11, 0, 0, 12, 0]),
        Sense::in_cdb(1, Some(0)),
        "SP"
    );
    assert_eq!(host.sense(0, &[0x15, 0, 0, 0, 12, 0]), Sense::in_cdb(1, Some(4)), "PF");
    assert_eq!(answer(host.send(0, &[0x15, 0x10, 0, 0, 0, 0])), Answer::good());
}

#[test]
fn the_long_form_of_mode_select() {
    let mut host = Host::one();
    let mut list = vec![0; 8];
    list.extend(&control(0x04, 0)[4..]);
    let cdb = [0x55, 0x10, 0, 0, 0, 0, 0, 0, list.len() as u8, 0];
    assert_eq!(answer(host.send_with(0, &cdb, &list)), Answer::good());
    assert_eq!(host.nexus.format(crate::Lun::of(0)), Format::Descriptor);
    // With a long block descriptor that says what is so.
    let mut list = vec![0, 0, 0, 0, 1, 0, 0, 16];
    list.extend([0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0]);
    let cdb = [0x55, 0x10, 0, 0, 0, 0, 0, 0, list.len() as u8, 0];
    assert_eq!(answer(host.send_with(0, &cdb, &list)), Answer::good());
}
