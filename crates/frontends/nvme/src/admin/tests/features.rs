use super::*;
use amita_frontend::reservation::{Refusal, State};

const ALL: u32 = u32::MAX;

fn set(id: u32, nsid: u32, value: u32) -> Command {
    command(0x09, nsid, &[(10, id), (11, value)])
}

fn get(id: u32, nsid: u32) -> Command {
    command(0x0a, nsid, &[(10, id)])
}

fn selected(id: u32, nsid: u32, select: u32) -> Command {
    command(0x0a, nsid, &[(10, id | select << 8)])
}

/// The result of a command that has to succeed.
fn value(admin: &mut Admin, command: &Command) -> u32 {
    let reply = reply(admin, command);
    assert_eq!(reply.status, Status::SUCCESS, "{command:?}");
    u32::try_from(reply.result).unwrap()
}

#[test]
fn values_are_kept_and_their_defaults_known() {
    let mut admin = ready(Kind::Io);
    // Feature, what is set, what is read then, the default.
    let features = [
        (0x01, 0x0403_0205, 0x0403_0205, 7),
        (0x02, 0x40, 0x40, 0),
        (0x04, 0x0140, 0x0140, 0xffff),
        (0x0a, 1, 1, 0),
        (0x0b, 0x801, 0x801, 0x900),
        (0x0f, 5000, 5000, 0),
    ];
    for (id, new, read, default) in features {
        assert_eq!(value(&mut admin, &get(id, 0)), default, "feature {id:#x}");
        value(&mut admin, &set(id, 0, new));
        assert_eq!(value(&mut admin, &get(id, 0)), read, "feature {id:#x}");
        assert_eq!(
            value(&mut admin, &selected(id, 0, 1)),
            default,
            "the default of {id:#x}"
        );
        assert_eq!(
            value(&mut admin, &selected(id, 0, 2)),
            default,
            "what is saved of {id:#x}"
        );
        assert_eq!(value(&mut admin, &selected(id, 0, 3)), 0b100, "{id:#x} can be changed");
    }
}

#[test]
fn a_reset_brings_the_defaults_back() {
    let mut admin = ready(Kind::Io);
    value(&mut admin, &set(0x0a, 0, 1));
    value(&mut admin, &set(0x0f, 0, 5000));
    value(&mut admin, &set(0x82, ALL, 0b10));
    admin.property_set(NOW, 0x14, 4, 0).unwrap();
    admin.property_set(NOW, 0x14, 4, ENABLE).unwrap();
    assert_eq!(value(&mut admin, &get(0x0a, 0)), 0);
    assert_eq!(value(&mut admin, &get(0x0f, 0)), 0);
    assert_eq!(value(&mut admin, &get(0x82, 1)), 0);
}

#[test]
fn the_number_of_queues_is_the_smaller_of_wish_and_limit() {
    let mut admin = ready(Kind::Io);
    assert_eq!(value(&mut admin, &get(7, 0)), 127 << 16 | 127);
    assert_eq!(value(&mut admin, &set(7, 0, 7 << 16 | 7)), 7 << 16 | 7);
    assert_eq!(value(&mut admin, &get(7, 0)), 7 << 16 | 7);
    assert_eq!(value(&mut admin, &set(7, 0, 999 << 16 | 500)), 127 << 16 | 127);
    assert_eq!(
        value(&mut admin, &set(7, 0, 3 << 16 | 9)),
        3 << 16 | 3,
        "queues are pairs"
    );
    assert_eq!(value(&mut admin, &set(7, 0, 0)), 0, "one");
    assert_eq!(failure(&mut admin, &set(7, 0, 0xffff)), 0x002);
    assert_eq!(failure(&mut admin, &set(7, 0, 0xffff << 16)), 0x002);
    assert_eq!(value(&mut admin, &get(7, 0)), 0, "a refusal changes nothing");
}

/// NVM Express Base 2.1, 5.1.25.2.1: Command Sequence Error when there has been an I/O queue, which the register knows.
#[test]
fn the_register_grants_the_number_of_queues() {
    let mut admin = ready(Kind::Io);
    let wish = set(7, 0, 7 << 16 | 9);
    assert_eq!(admin.execute(NOW, &wish, &[]), Turn::Ask(Question::Grant(8)));
    let refused = admin.answer(&wish, Answer::Grant(false));
    assert_eq!(refused.status, COMMAND_SEQUENCE);
    assert_eq!(value(&mut admin, &get(7, 0)), 127 << 16 | 127, "as it was");
    assert_eq!(admin.execute(NOW, &wish, &[]), Turn::Ask(Question::Grant(8)));
    assert_eq!(admin.answer(&wish, Answer::Grant(true)), told(7 << 16 | 7));
    assert_eq!(value(&mut admin, &get(7, 0)), 7 << 16 | 7);
}

#[test]
fn a_grant_that_comes_after_a_reset_is_of_another_controller() {
    let mut admin = ready(Kind::Io);
    let wish = set(7, 0, 7 << 16 | 7);
    for enabled in [false, true] {
        assert_eq!(admin.execute(NOW, &wish, &[]), Turn::Ask(Question::Grant(8)));
        admin.property_set(NOW, 0x14, 4, 0).unwrap();
        if enabled {
            admin.property_set(NOW, 0x14, 4, ENABLE).unwrap();
        }
        assert_eq!(admin.answer(&wish, Answer::Grant(true)).status, COMMAND_SEQUENCE);
        admin.property_set(NOW, 0x14, 4, ENABLE).unwrap();
        assert_eq!(value(&mut admin, &get(7, 0)), 127 << 16 | 127);
    }
}

#[test]
fn fields_that_are_wrong() {
    let mut admin = ready(Kind::Io);
    let wrong = [
        set(0x02, 0, 1),                                 // there is no power state 1
        set(0x04, 0, 1 << 16),                           // nor temperature sensor 1
        set(0x04, 0, 2 << 20),                           // nor a third threshold
        get(0x06, 0),                                    // volatile write cache
        set(0x06, 0, 1),                                 //
        set(0x05, 1, 1 << 16),                           // DULBE
        set(0x0b, 0, 1 << 9),                            // firmware activation notices
        set(0x0b, 0, 1 << 31),                           // discovery log changes, of an I/O controller
        set(0x82, 1, 1),                                 // reserved bits of a mask
        get(0x81, 0),                                    // a host identifier of 64 bits
        selected(0x01, 0, 4),                            // SEL is reserved
        selected(0x01, 0, 7),                            //
        command(0x0a, 0, &[(10, 0x04), (11, 15 << 16)]), // Get for all temperatures
    ];
    for command in wrong {
        assert_eq!(failure(&mut admin, &command), 0x002, "{command:?}");
    }
    let known = [
        0x01, 0x02, 0x04, 0x05, 0x07, 0x0a, 0x0b, 0x0f, 0x16, 0x19, 0x81, 0x82, 0x83,
    ];
    for id in (0..=255).filter(|id| !known.contains(id)) {
        for command in [get(id, 0), set(id, 0, 0), selected(id, 0, 3)] {
            assert_eq!(failure(&mut admin, &command), 0x002, "feature {id:#x}");
        }
    }
}

#[test]
fn nothing_is_saved() {
    let mut admin = ready(Kind::Io);
    for (id, nsid) in [(0x01, 0), (0x0b, 0), (0x05, 1)] {
        assert_eq!(
            failure(&mut admin, &set(id | 1 << 31, nsid, 0)),
            0x10d,
            "feature {id:#x}"
        );
    }
}

#[test]
fn a_feature_is_of_the_controller_or_of_namespaces() {
    let mut admin = ready(Kind::Io);
    for id in [0x01, 0x0a, 0x0b] {
        assert_eq!(failure(&mut admin, &set(id, 1, 0)), 0x10f, "feature {id:#x}");
        value(&mut admin, &set(id, ALL, 0));
    }
    for id in [0x05, 0x82] {
        assert_eq!(value(&mut admin, &selected(id, 1, 3)), 0b110, "feature {id:#x}");
        for nsid in [0, 3, 1025] {
            assert_eq!(
                failure(&mut admin, &set(id, nsid, 0)),
                0x00b,
                "feature {id:#x} of {nsid}"
            );
            assert_eq!(failure(&mut admin, &get(id, nsid)), 0x00b, "feature {id:#x} of {nsid}");
        }
        assert_eq!(failure(&mut admin, &get(id, ALL)), 0x00b);
        value(&mut admin, &set(id, 2, 0b1010));
        assert_eq!(value(&mut admin, &get(id, 1)), 0);
        assert_eq!(value(&mut admin, &get(id, 2)), 0b1010);
        assert_eq!(value(&mut admin, &selected(id, 2, 1)), 0);
        value(&mut admin, &set(id, ALL, 0b100));
        for nsid in [1, 2, 5] {
            assert_eq!(value(&mut admin, &get(id, nsid)), 0b100);
        }
    }
}

#[test]
fn both_temperature_thresholds() {
    let mut admin = ready(Kind::Io);
    value(&mut admin, &set(0x04, 0, 0x150));
    value(&mut admin, &set(0x04, 0, 1 << 20 | 0x110));
    assert_eq!(value(&mut admin, &get(0x04, 0)), 0x150);
    assert_eq!(value(&mut admin, &command(0x0a, 0, &[(10, 4), (11, 1 << 20)])), 0x110);
    value(&mut admin, &set(0x04, 0, 15 << 16 | 0x160));
    assert_eq!(value(&mut admin, &get(0x04, 0)), 0x160);
}

#[test]
fn keep_alive_times_are_whole_seconds() {
    let mut admin = ready(Kind::Io);
    for (asked, kept) in [
        (1, 1000),
        (1000, 1000),
        (1001, 2000),
        (0, 0),
        (0xffff_ffff, 0xffff_ffff),
    ] {
        value(&mut admin, &set(0x0f, 0, asked));
        assert_eq!(value(&mut admin, &get(0x0f, 0)), kept);
    }
}

#[test]
fn the_host_identifier_is_that_of_connect() {
    let mut admin = ready(Kind::Io);
    let extended = command(0x0a, 0, &[(10, 0x81), (11, 1)]);
    assert_eq!(data(&mut admin, &extended), HOST_ID);
    assert_eq!(failure(&mut admin, &set(0x81, 0, 1)), 0x00c);
    assert_eq!(value(&mut admin, &selected(0x81, 0, 3)), 0, "it cannot be changed");
}

#[test]
fn host_behaviour() {
    let mut admin = ready(Kind::Io);
    let set = command(0x09, 0, &[(10, 0x16)]);
    let get = command(0x0a, 0, &[(10, 0x16)]);
    assert_eq!(admin.data_bytes(&set), Ok(Transfer::FromHost(512)));
    let status = |admin: &mut Admin, page: &[u8]| match turn(admin, &set, page) {
        Turn::Reply(reply) => reply.status,
        other => panic!("{other:?}"),
    };
    let mut page = vec![0; 512];
    page[0] = 1;
    assert_eq!(status(&mut admin, &page), Status::SUCCESS);
    assert_eq!(data(&mut admin, &get), page);
    let invalid = Status::new(0, 2, true);
    for (at, byte) in [(0, 2), (1, 2), (3, 9), (4, 1 << 2)] {
        let mut bad = page.clone();
        bad[at] = byte;
        assert_eq!(status(&mut admin, &bad), invalid, "byte {at} is {byte}");
    }
    assert_eq!(status(&mut admin, &page[..511]), Status::new(0, 0x0f, true));
    assert_eq!(data(&mut admin, &get), page);
    assert_eq!(
        data(&mut admin, &command(0x0a, 0, &[(10, 0x116)])),
        vec![0; 512],
        "the default"
    );
}

#[test]
fn the_profile_of_command_sets_needs_all_of_them_enabled() {
    let mut admin = ready(Kind::Io);
    assert_eq!(failure(&mut admin, &get(0x19, 0)), 0x00c);
    assert_eq!(failure(&mut admin, &set(0x19, 0, 0)), 0x00c);
    let mut admin = fresh(Kind::Io);
    admin.property_set(NOW, 0x14, 4, ENABLE | 6 << 4).unwrap();
    assert_eq!(value(&mut admin, &get(0x19, 0)), 0);
    assert_eq!(value(&mut admin, &set(0x19, 0, 0)), 0);
    assert_eq!(failure(&mut admin, &set(0x19, 0, 1)), 0x002);
}

#[test]
fn reservation_persistence_is_asked_of_the_volume() {
    let mut admin = ready(Kind::Io);
    let volume = VolumeId(102);
    let set = |persist| set(0x83, 2, persist);
    let asked = |command| Turn::Reserve { volume, command };
    assert_eq!(
        turn(&mut admin, &set(1), &[]),
        asked(reservation::Command::Persist(true))
    );
    assert_eq!(
        turn(&mut admin, &set(0), &[]),
        asked(reservation::Command::Persist(false))
    );
    assert_eq!(
        turn(&mut admin, &get(0x83, 2), &[]),
        asked(reservation::Command::Report)
    );

    let state = State {
        persist: true,
        ..State::default()
    };
    let told = admin.reservation_reply(&get(0x83, 2), Ok(&state));
    assert_eq!((told.status, told.result), (Status::SUCCESS, 1));
    let done = admin.reservation_reply(&set(1), Ok(&state));
    assert_eq!((done.status, done.result), (Status::SUCCESS, 0));
    let lost = admin.reservation_reply(&set(1), Err(Refusal::Unavailable));
    assert_eq!(lost.status, Status::new(3, 0, false), "another path may do it");

    for command in [set(1), get(0x83, 3), get(0x83, ALL)].map(|command| Command(command.0)) {
        let nsid_3 = |mut command: Command| {
            command.0[4] = 3;
            command
        };
        assert_eq!(failure(&mut admin, &nsid_3(command)), 0x00b);
    }
    assert_eq!(failure(&mut admin, &command(0x09, ALL, &[(10, 0x83), (11, 1)])), 0x00b);
    assert_eq!(value(&mut admin, &selected(0x83, 2, 1)), 0);
}

#[test]
fn discovery_controllers_have_two_features() {
    let mut admin = ready(Kind::Discovery);
    assert_eq!(value(&mut admin, &get(0x0b, 0)), 1 << 31);
    value(&mut admin, &set(0x0b, 0, 0));
    assert_eq!(value(&mut admin, &get(0x0b, 0)), 0);
    assert_eq!(failure(&mut admin, &set(0x0b, 0, 1 << 8)), 0x002);
    value(&mut admin, &set(0x0f, 0, 30_000));
    assert_eq!(value(&mut admin, &get(0x0f, 0)), 30_000);
    for id in (0..=255).filter(|id| ![0x0b, 0x0f].contains(id)) {
        assert_eq!(failure(&mut admin, &get(id, 0)), 0x002, "feature {id:#x}");
    }
}
