//! What initiators of iSCSI see of a core, and the register that their sessions ask.

use super::*;
use crate::iscsi_catalog::IscsiCataloguer;
use amita_iscsi::{Call, Holder, Party, Reply};
use serde_json::json;

const IQN: &str = "iqn.2026-01.com.example:db";

fn tell(rig: &mut Rig) {
    for (key, value) in [
        (
            map::node_key("gateway"),
            json!({"id": 1, "name": "gateway", "fabric": "127.0.0.1:65000", "cores": 1}),
        ),
        (
            map::iscsi_gateway_key("gateway"),
            json!({"node": 1, "name": "gateway", "tag": 3, "portals": ["127.0.0.1:3260"]}),
        ),
        (
            map::pool_key("p"),
            json!({"id": 1, "name": "p", "kind": {"type": "replicated", "copies": 1, "min_copies": 1},
                "groups": 1, "chunk_bytes": 4 << 20}),
        ),
        (
            map::volume_key("v"),
            json!({"id": VOLUME, "name": "v", "pool": "p", "size_bytes": 1 << 30, "generation": 5, "owner": 1}),
        ),
        (
            map::iscsi_target_key("db"),
            json!({"name": "db", "iqn": IQN, "any_initiator": true, "luns": [
                {"number": 4, "volume": VOLUME, "uuid": "5107c6a0-0000-8000-8000-000000000001", "block_bytes": 512}]}),
        ),
    ] {
        rig.put(key, &value);
    }
    rig.pass();
}

fn settings_told(rig: &Rig) -> usize {
    let heard = rig.heard.borrow();
    heard.iter().filter(|event| matches!(event, Event::Settings)).count()
}

#[test]
fn initiators_see_nothing_before_all_is_known_and_then_every_change() {
    let mut rig = Rig::new();
    rig.core.serve_iscsi(IscsiCataloguer::new(NodeId(1), None));
    tell(&mut rig);
    let catalog = |rig: &Rig| rig.core.iscsi_port().catalog();
    assert_eq!((catalog(&rig).scsi.revision, settings_told(&rig)), (0, 0));

    rig.core.control(ToCore::Settled);
    rig.pass();
    rig.pass();
    assert_eq!((catalog(&rig).scsi.revision, settings_told(&rig)), (1, 1));
    let here = catalog(&rig);
    let target = here.target_here(IQN).expect("it is served here");
    assert_eq!((here.tag(), target.units[0].number), (Some(3), 4));

    let changed = json!({"name": "db", "iqn": IQN, "any_initiator": true});
    rig.put(map::iscsi_target_key("db"), &changed);
    rig.pass();
    rig.pass();
    let now = catalog(&rig);
    assert_eq!((now.scsi.revision, settings_told(&rig)), (2, 2));
    assert!(now.target_here(IQN).is_some_and(|target| target.units.is_empty()));
    // What concerns nobody who logs in makes no other settings.
    rig.put(map::iscsi_target_key("db"), &changed);
    rig.pass();
    rig.pass();
    assert_eq!((catalog(&rig).scsi.revision, settings_told(&rig)), (2, 2));
}

#[test]
fn a_node_that_serves_no_initiators_makes_no_settings_for_them() {
    let mut rig = Rig::new();
    tell(&mut rig);
    rig.core.control(ToCore::Settled);
    rig.pass();
    rig.pass();
    assert_eq!(rig.core.iscsi_port().catalog().scsi.revision, 0);
}

#[test]
fn the_register_answers_the_front_that_asked_it() {
    let mut rig = Rig::new();
    let enter = |rig: &mut Rig, tag: u64| {
        let party = Box::new(Party {
            target: IQN.to_owned(),
            initiator: "iqn.2026-01.com.example:host".to_owned(),
            isid: [tag as u8; 6],
        });
        let holder = Holder::Unproven("127.0.0.1".parse().unwrap());
        let front = rig.front;
        rig.core.fronts.with(front, |_, service| {
            service.register(front, tag, Box::new(Call::Enter { party, holder }));
        });
        rig.pass();
        rig.pass();
    };
    enter(&mut rig, 6);
    let heard = rig.heard.borrow();
    let replies: Vec<(u64, Option<&Reply>)> = heard
        .iter()
        .filter_map(|event| match event {
            Event::Register { tag, reply } => Some((*tag, reply.downcast_ref::<Reply>())),
            _ => None,
        })
        .collect();
    assert!(
        matches!(replies[..], [(6, Some(Reply::Entered { tsih }))] if *tsih > 0),
        "{replies:?}"
    );
}
