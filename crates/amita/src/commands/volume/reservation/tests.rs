use super::*;
use amita_frontend::HostKey;
use amita_frontend::reservation::{Connection, Held, Lock, Registrant};

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
                port: (id[0] == 2).then(|| PortName {
                    initiator: "iqn.2026-01.test:host,i,0x00023d000001".to_owned(),
                    tag: 3,
                }),
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
    let rows: Vec<String> = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    let of_nvme = "01010101-0101-0101-0101-010101010101 0x0000000000000abc";
    assert!(rows.iter().any(|row| row == of_nvme), "{text}");
    let of_iscsi = "iqn.2026-01.test:host,i,0x00023d000001 by target port 3  0x0000000000000abc";
    assert!(text.contains(of_iscsi), "{text}");
    let json = serde_json::to_value(&shown).unwrap();
    assert_eq!(
        (&json["kind"], &json["locked"]),
        (&"WriteExclusive".into(), &false.into())
    );
    assert_eq!(json["registrants"][1]["port"]["tag"], 3);
    assert!(json["registrants"][0].get("port").is_none());
    assert!(super::text(&Shown::of("v", &State::default())).contains("Nobody"));
    let locked = State {
        locked: Some(Lock {
            host: key(&ids[0]),
            by: Connection::default(),
        }),
        ..State::default()
    };
    let text = super::text(&Shown::of("v", &locked));
    assert!(
        text.contains("one initiator's alone") && !text.contains("Nobody"),
        "{text}"
    );
}
