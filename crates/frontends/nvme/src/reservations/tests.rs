use super::*;

const NAME: &str = "nqn.2026-01.test:host";
const HOST: [u8; 16] = *b"0123456789abcdef";

fn command(opcode: u8, dword_10: u32, dword_11: u32) -> Command {
    let mut bytes = [0; 64];
    bytes[0] = opcode;
    bytes[40..44].copy_from_slice(&dword_10.to_le_bytes());
    bytes[44..48].copy_from_slice(&dword_11.to_le_bytes());
    Command(bytes)
}

fn keys(first: u64, second: u64) -> Vec<u8> {
    [first.to_le_bytes(), second.to_le_bytes()].concat()
}

fn decoded(opcode: u8, dword: u32) -> Result<reservation::Command, Status> {
    decode(&command(opcode, dword, 0), &keys(0x1111, 0x2222), &HOST)
}

const INVALID: Result<reservation::Command, Status> = Err(Status::new(0, 2, true));

#[test]
fn register() {
    let host_id = HOST;
    let persist = [(0, None), (2, Some(false)), (3, Some(true))];
    for ((bits, persist), ignore_key) in persist.into_iter().flat_map(|p| [(p, false), (p, true)]) {
        let flags = bits << 30 | u32::from(ignore_key) << 3;
        assert_eq!(
            decoded(0x0d, flags),
            Ok(reservation::Command::Register {
                host_id,
                key: 0x2222,
                ignore_key,
                persist
            })
        );
        assert_eq!(
            decoded(0x0d, flags | 1),
            Ok(reservation::Command::Unregister {
                key: 0x1111,
                ignore_key,
                persist
            })
        );
        assert_eq!(
            decoded(0x0d, flags | 2),
            Ok(reservation::Command::Replace {
                host_id,
                key: 0x1111,
                new_key: 0x2222,
                ignore_key,
                persist
            })
        );
    }
    assert_eq!(decoded(0x0d, 1 << 30), INVALID, "CPTPL is reserved");
    for action in 3..8 {
        assert_eq!(decoded(0x0d, action), INVALID, "RREGA {action}");
    }
    for action in [0, 2] {
        assert_eq!(
            decode(&command(0x0d, action, 0), &keys(1, 0), &HOST),
            INVALID,
            "a key of 0"
        );
    }
    assert!(decode(&command(0x0d, 1, 0), &keys(1, 0), &HOST).is_ok());
}

#[test]
fn acquire() {
    for kind in Kind::ALL {
        let bits = (kind as u32) << 8;
        let key = 0x1111;
        assert_eq!(decoded(0x11, bits), Ok(reservation::Command::Acquire { key, kind }));
        for (action, abort) in [(1, false), (2, true)] {
            assert_eq!(
                decoded(0x11, bits | action),
                Ok(reservation::Command::Preempt {
                    key,
                    victim: 0x2222,
                    kind,
                    abort
                })
            );
        }
    }
    for kind in [0, 7, 8, 255] {
        assert_eq!(decoded(0x11, kind << 8), INVALID, "RTYPE {kind}");
    }
    for action in 3..8 {
        assert_eq!(decoded(0x11, 1 << 8 | action), INVALID, "RACQA {action}");
    }
    assert_eq!(decoded(0x11, 1 << 8 | 1 << 3), INVALID, "IEKEY");
}

#[test]
fn release() {
    for kind in Kind::ALL {
        let release = Ok(reservation::Command::Release { key: 0x1111, kind });
        assert_eq!(decoded(0x15, (kind as u32) << 8), release);
    }
    for kind in [0, 7, 255] {
        assert_eq!(decoded(0x15, kind << 8), INVALID, "RTYPE {kind}");
        assert_eq!(
            decoded(0x15, kind << 8 | 1),
            Ok(reservation::Command::Clear { key: 0x1111 }),
            "the type does not matter"
        );
    }
    for action in 2..8 {
        assert_eq!(decoded(0x15, 1 << 8 | action), INVALID, "RRELA {action}");
    }
    assert_eq!(decoded(0x15, 1 << 8 | 1 << 3), INVALID, "IEKEY");
}

#[test]
fn report() {
    let inconsistent = Err(Status::new(0, 0x18, true));
    assert_eq!(decode(&command(0x0e, 0, 0), &[], &HOST), inconsistent, "EDS is needed");
    assert_eq!(
        decode(&command(0x0e, 0, 1), &[], &HOST),
        Ok(reservation::Command::Report)
    );
}

#[test]
fn what_travels() {
    let bytes = |opcode, dword| {
        let command = command(opcode, dword, 0);
        (bytes_from_host(&command), bytes_to_host(&command))
    };
    assert_eq!(bytes(0x0d, 0), (16, 0));
    assert_eq!(bytes(0x11, 0), (16, 0));
    assert_eq!(bytes(0x15, 0), (8, 0));
    assert_eq!(bytes(0x0e, 0), (0, 4));
    assert_eq!(bytes(0x0e, u32::MAX), (0, 16 << 30), "as far as the field goes");
    assert_eq!(bytes(0x01, 9), (0, 0));
}

#[test]
fn data_that_is_too_short() {
    for (opcode, needs) in [(0x0d, 16), (0x11, 16), (0x15, 8)] {
        let command = command(opcode, 1 << 8, 0);
        for length in 0..needs {
            assert_eq!(decode(&command, &keys(1, 2)[..length], &HOST), INVALID);
        }
        assert!(decode(&command, &keys(1, 2)[..needs], &HOST).is_ok());
    }
    assert_eq!(decode(&command(0x01, 0, 1), &[], &HOST), Err(Status::new(0, 1, true)));
}

#[test]
fn statuses() {
    assert_eq!(status(&Refusal::Conflict), Status::new(0, 0x83, true));
    assert_eq!(status(&Refusal::Invalid), Status::new(0, 0x02, true));
    assert!(status(&Refusal::Full).final_);
    assert!(!status(&Refusal::Unavailable).final_, "another path may work");
}

#[test]
fn reservation_status() {
    let mut state = State::default();
    assert_eq!(encode_report(&state, false), [0; 24]);
    assert_eq!(encode_report(&state, true), [0; 64]);
    let other = *b"fedcba9876543210";
    for (host_id, key) in [(HOST, 0x0102_0304_0506_0708), (other, 9)] {
        let register = reservation::Command::Register {
            host_id,
            key,
            ignore_key: false,
            persist: Some(true),
        };
        state.apply(host_key(NAME, &host_id), &register).unwrap();
    }
    let kind = Kind::ExclusiveAccessRegistrants;
    state
        .apply(host_key(NAME, &other), &reservation::Command::Acquire { key: 9, kind })
        .unwrap();

    let header = [2, 0, 0, 0, 4, 2, 0, 0, 0, 1];
    let short = encode_report(&state, false);
    assert_eq!(short.len(), 24 * 3);
    assert_eq!(short[..10], header);
    assert_eq!(short[10..24], [0; 14]);
    assert_eq!(short[24..32], [0xff, 0xff, 0, 0, 0, 0, 0, 0]);
    assert_eq!(&short[32..40], b"01234567");
    assert_eq!(short[40..48], [8, 7, 6, 5, 4, 3, 2, 1]);
    assert_eq!(short[48..56], [0xff, 0xff, 1, 0, 0, 0, 0, 0], "the holder");

    let long = encode_report(&state, true);
    assert_eq!(long.len(), 64 * 3);
    assert_eq!(long[..10], header);
    assert_eq!(long[10..64], [0; 54]);
    assert_eq!(long[64..72], [0xff, 0xff, 0, 0, 0, 0, 0, 0]);
    assert_eq!(long[72..80], [8, 7, 6, 5, 4, 3, 2, 1]);
    assert_eq!(long[80..96], HOST);
    assert_eq!(long[96..128], [0; 32]);
    assert_eq!(long[130], 1);
    assert_eq!(long[144..160], other);
}

/// Where all registrants hold the reservation, the report says so of each.
#[test]
fn all_registrants_hold_it() {
    let mut state = State::default();
    for host in [[1; 16], [2; 16]] {
        let register = reservation::Command::Register {
            host_id: host,
            key: 1,
            ignore_key: false,
            persist: None,
        };
        state.apply(host_key(NAME, &host), &register).unwrap();
    }
    let kind = Kind::WriteExclusiveAll;
    state
        .apply(
            host_key(NAME, &[1; 16]),
            &reservation::Command::Acquire { key: 1, kind },
        )
        .unwrap();
    let page = encode_report(&state, true);
    assert_eq!((page[4], page[66], page[130]), (5, 1, 1));
}

/// The metadata has the keys of hosts: they are what they are. (Computed with sha256sum.)
#[test]
fn the_key_of_a_host_is_of_its_name_and_its_identifier() {
    let key = |nqn: &str, id: u8| format!("{:032x}", { host_key(nqn, &[id; 16]).0 });
    assert_eq!(key("nqn.2026-01.test:host", 1), "ab0b0eae975a62a27d6d35986409ddc6");
    assert_eq!(key("nqn.2026-01.test:other", 1), "5fc296f15ed491438a3080e3f94f103e");
    assert_eq!(key("nqn.2026-01.test:host", 2), "e02b63e1a806f59619caa326a39bb475");
}

/// Two identifiers with the same FNV-1a hash of 64 bits are two hosts.
#[test]
fn identifiers_are_compared_in_full() {
    fn fnv(bytes: &[u8; 16]) -> u64 {
        let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
    }
    let one: [u8; 16] = [194, 18, 11, 36, 112, 15, 3, 116, 160, 74, 37, 25, 205, 116, 100, 196];
    let two: [u8; 16] = [207, 90, 21, 28, 11, 102, 21, 3, 158, 99, 41, 255, 20, 4, 122, 196];
    assert_eq!(fnv(&one), fnv(&two));
    assert_ne!(host_key(NAME, &one), host_key(NAME, &two));
}
