use super::*;

fn command(opcode: u8, nsid: u32, first: u64) -> Command {
    let mut bytes = [0; 64];
    bytes[0] = opcode;
    bytes[1] = 0x40;
    bytes[2..4].copy_from_slice(&0x1234u16.to_le_bytes());
    bytes[4..8].copy_from_slice(&nsid.to_le_bytes());
    bytes[40..48].copy_from_slice(&first.to_le_bytes());
    Command(bytes)
}

fn failure(number: u16) -> Failure {
    Failure {
        command: number,
        ..Failure::of(1, &command(2, 1, 0), status::INTERNAL, None)
    }
}

/// NVM Express Base 2.1, 5.1.12.1.2: "Parameter Error Location", the byte and the bit.
#[test]
fn the_field_that_is_wrong() {
    let at = |opcode, status| Failure::of(1, &command(opcode, 7, 9), status, None).location;
    assert_eq!(at(0xee, status::INVALID_OPCODE), 0);
    assert_eq!(at(FABRICS, status::INVALID_OPCODE), 4, "the Fabrics command type");
    assert_eq!(at(2, status::ID_CONFLICT), 2);
    assert_eq!(at(2, status::INVALID_NAMESPACE), 4);
    assert_eq!(at(2, status::SGL_OFFSET), 24);
    assert_eq!(at(2, status::SGL_LENGTH), 32);
    assert_eq!(at(2, status::SGL_TYPE), 39 | 4 << 8);
    assert_eq!(at(2, status::LBA_RANGE), 40);
    for opcode in [COPY, DATASET] {
        assert_eq!(at(opcode, status::LBA_RANGE), 0xffff, "its ranges are data");
    }
    assert_eq!(at(2, status::INVALID_FIELD), 0xffff);
    let mut prp = command(2, 7, 9);
    prp.0[1] = 0;
    assert_eq!(Failure::of(1, &prp, status::INVALID_FIELD, None).location, 1 | 6 << 8);
    assert_eq!(at(2, status::UNRECOVERED_READ), 0xffff);
}

#[test]
fn the_block_that_is_wrong() {
    let lba = |opcode, status, lba| Failure::of(1, &command(opcode, 7, 9), status, lba).lba;
    assert_eq!(lba(2, status::UNRECOVERED_READ, Some(12)), 12);
    assert_eq!(lba(2, status::LBA_RANGE, None), 9, "the first of the command");
    assert_eq!(lba(5, status::COMPARE_FAILURE, None), 9);
    assert_eq!(lba(COPY, status::LBA_RANGE, None), 0);
    assert_eq!(lba(2, status::INTERNAL, None), 0);
}

#[test]
fn a_fabrics_command_has_no_namespace() {
    assert_eq!(Failure::of(1, &command(2, 7, 0), status::INTERNAL, None).nsid, 7);
    assert_eq!(
        Failure::of(1, &command(FABRICS, 4, 0), status::INVALID_OPCODE, None).nsid,
        0
    );
}

#[test]
fn the_newest_are_kept_and_all_are_counted() {
    let mut failures = Failures::default();
    assert!(failures.is_empty());
    (0..70).for_each(|number| failures.push(failure(number)));
    assert_eq!(failures.forgotten(), 6);
    let numbers = |failures: &Failures| failures.kept().map(|one| one.command).collect::<Vec<_>>();
    assert_eq!(numbers(&failures), (6..70).collect::<Vec<_>>());
    let mut more = Failures::default();
    (70..140).for_each(|number| more.push(failure(number)));
    failures.append(more);
    assert_eq!(failures.forgotten() + failures.kept().count() as u64, 140);
    assert_eq!(numbers(&failures), (76..140).collect::<Vec<_>>());
    let mut few = Failures::default();
    few.append(std::mem::take(&mut failures));
    assert!(failures.is_empty() && !few.is_empty());
    assert_eq!(few.forgotten(), 76);
}
