use super::*;
use amita_frontend::HostKey;
use amita_frontend::reservation::{Held, Registrant};

fn key(id: &[u8; 16]) -> HostKey {
    HostKey(u128::from_le_bytes(*id))
}

#[test]
fn it_is_shown_who_is_registered_and_who_holds_it() {
    let ids = [[1; 16], [2; 16]];
    let state = State {
        generation: 4,
        registrants: ids
            .iter()
            .map(|id| Registrant {
                host: key(id),
                host_id: *id,
                key: 0xabc,
            })
            .collect(),
        held: Some(Held {
            kind: Kind::WriteExclusive,
            holder: Some(key(&ids[1])),
        }),
        ..State::default()
    };
    let shown = Shown::of("v", &state);
    assert_eq!(
        shown.registrants.iter().map(|found| found.holder).collect::<Vec<_>>(),
        [false, true]
    );
    let text = text(&shown);
    assert!(text.contains("write exclusive (1)"), "{text}");
    assert!(
        text.contains("01010101-0101-0101-0101-010101010101  0x0000000000000abc"),
        "{text}"
    );
    assert_eq!(serde_json::to_value(&shown).unwrap()["kind"], "WriteExclusive");
    assert!(super::text(&Shown::of("v", &State::default())).contains("Nobody"));
}
