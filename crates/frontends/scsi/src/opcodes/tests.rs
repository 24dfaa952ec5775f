use super::*;
use crate::sense::{FieldPointer, Specific};

fn all(_: Needs) -> bool {
    true
}

#[test]
fn the_table_is_in_order_and_its_blocks_are_as_long_as_their_group_says() {
    let keys: Vec<_> = COMMANDS.iter().map(|known| (known.opcode, known.action)).collect();
    assert!(keys.windows(2).all(|pair| pair[0] < pair[1]), "{keys:x?}");
    for known in COMMANDS {
        // SPC-4, "Operation code": the group code is in the three highest bits.
        let expected = match known.opcode >> 5 {
            0 => 6,
            1 | 2 => 10,
            4 => 16,
            5 => 12,
            group => panic!("group {group}"),
        };
        assert_eq!(known.usage.len(), expected, "{:#04x}", known.opcode);
        assert_eq!(known.usage.last(), Some(&0), "CONTROL: neither NACA nor anything else");
        let actions = COMMANDS.iter().filter(|other| other.opcode == known.opcode).count();
        assert!(known.action.is_some() || actions == 1);
        assert!(known.action.is_none() || known.usage[1] & 0x1f == 0x1f);
    }
}

#[test]
fn every_command_is_found_and_no_other() {
    assert!(COMMANDS.len() < 256);
    for known in COMMANDS {
        let cdb = Cdb::new(&[known.opcode, known.action.unwrap_or(0)]);
        let found = Known::find(&cdb, all).expect("a command");
        assert_eq!((found.opcode, found.action), (known.opcode, known.action));
    }
    for opcode in 0..=u8::MAX {
        let is_there = COMMANDS.iter().any(|known| known.opcode == opcode);
        let found = Known::find(&Cdb::new(&[opcode]), all);
        let is_missing = matches!(&found, Err(sense) if sense.code == code::INVALID_OPCODE);
        assert_eq!(is_missing, !is_there, "{opcode:#04x}");
    }
}

#[test]
fn what_is_not_there() {
    let sense = |bytes: &[u8]| Known::find(&Cdb::new(bytes), all).expect_err("no such command");
    assert_eq!(sense(&[0x04; 6]), Sense::new(Key::IllegalRequest, code::INVALID_OPCODE));
    assert_eq!(sense(&[0x7f; 32]).code, code::INVALID_OPCODE);
    assert_eq!(sense(&[0x5e, 0x04, 0, 0, 0, 0, 0, 0, 0, 0]), Sense::in_cdb(1, Some(4)));
    let set = Cdb::new(&[0xa4, 0x0a, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0]);
    assert!(Known::find(&set, all).is_ok());
    let without = Known::find(&set, |needs| needs != Needs::ExplicitAccess);
    assert_eq!(without.expect_err("not here").code, code::INVALID_OPCODE);
}

#[test]
fn reserved_bits_are_pointed_at() {
    let check = |bytes: &[u8]| {
        let cdb = Cdb::new(bytes);
        Known::find(&cdb, all).expect("a command").check_reserved(&cdb)
    };
    assert_eq!(check(&[0x28, 0x1e, 0, 0, 0, 0, 0, 0, 1, 0]), Ok(()));
    // RDPROTECT is three bits from bit 7 on, whichever of them is set.
    for protect in 1..8_u8 {
        let found = check(&[0x28, protect << 5, 0, 0, 0, 0, 0, 0, 1, 0]);
        assert_eq!(found, Err(Sense::in_cdb(1, Some(7))));
    }
    assert_eq!(
        check(&[0x28, 0x01, 0, 0, 0, 0, 0, 0, 1, 0]),
        Err(Sense::in_cdb(1, Some(0)))
    );
    // GROUP NUMBER; beside it the bits are reserved.
    assert_eq!(check(&[0x28, 0, 0, 0, 0, 0, 0x1f, 0, 1, 0]), Ok(()));
    assert_eq!(
        check(&[0x28, 0, 0, 0, 0, 0, 0x20, 0, 1, 0]),
        Err(Sense::in_cdb(6, None))
    );
    assert_eq!(
        check(&[0x25, 0, 0, 0, 0, 0, 0x01, 0, 0, 0]),
        Err(Sense::in_cdb(6, None)),
        "READ CAPACITY has none"
    );
    assert_eq!(check(&[0x00, 0, 0, 0, 0, 0x04]), Err(Sense::in_cdb(5, None)), "NACA");
    assert_eq!(
        check(&[0x41, 0x10, 0, 0, 0, 0, 0, 0, 1, 0]),
        Err(Sense::in_cdb(1, Some(4))),
        "ANCHOR"
    );
    assert_eq!(
        check(&[0x88, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        Err(Sense::in_cdb(10, None)),
        "too short"
    );
    assert_eq!(check(&[0x12, 0xe0, 0, 0, 96, 0]), Ok(()), "the LUN of SCSI-2");
    assert_eq!(
        check(&[0x12, 0xe4, 0, 0, 96, 0]),
        Err(Sense::in_cdb(1, Some(2))),
        "beside it"
    );
    let pointer = Sense::in_cdb(1, Some(7)).specific;
    let expected = FieldPointer {
        in_cdb: true,
        byte: 1,
        bit: Some(7),
    };
    assert_eq!(pointer, Specific::Field(expected));
}

#[test]
fn usage_data_names_the_command() {
    let find = |opcode, action| {
        let found = COMMANDS
            .iter()
            .find(|known| known.opcode == opcode && known.action == action);
        found.expect("a command").usage_data()
    };
    assert_eq!(find(INQUIRY, None), [0x12, 0x01, 0xff, 0xff, 0xff, 0]);
    let groups = find(MAINTENANCE_IN, Some(action::TARGET_PORT_GROUPS));
    assert_eq!(groups, [0xa3, 0xea, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0]);
    let keys = find(PERSISTENT_RESERVE_IN, Some(0));
    assert_eq!(keys, [0x5e, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0]);
}

#[test]
fn states_let_through_what_tells_of_the_state() {
    let inquiry = Cdb::new(&[0x12, 0, 0, 0, 96, 0]);
    let groups = Cdb::new(&[0xa3, 0x0a, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
    let codes = Cdb::new(&[0xa3, 0x0c, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
    let ready = Cdb::new(&[0; 6]);
    let keys = Cdb::new(&[0x5e, 0, 0, 0, 0, 0, 0, 1, 0, 0]);
    for state in [Alua::Standby, Alua::Unavailable, Alua::Transitioning] {
        assert!(check_state(state, &inquiry).is_ok() && check_state(state, &groups).is_ok());
        assert!(check_state(state, &codes).is_err() && check_state(state, &ready).is_err());
    }
    assert!(check_state(Alua::Standby, &keys).is_ok());
    let told = check_state(Alua::Unavailable, &keys).expect_err("not here").sense;
    assert_eq!(told, Some(Sense::new(Key::NotReady, code::TARGET_PORT_UNAVAILABLE)));
    for known in COMMANDS {
        assert!(check_state(Alua::NonOptimized, &Cdb::new(&[known.opcode])).is_ok());
    }
}
