use super::*;
use crate::control::Record;
use amita_metadata::{KeyValue, OpReply};
use amita_types::map::{Group, Pool, PoolKind, Syncing};
use amita_types::{Epoch, NodeId};

const MEMBER: Member = (GroupIndex(3), StoreId(7), Epoch(9));

fn opened(generation: u32) -> Opened {
    Opened {
        reservation: None,
        given_back: None,
        keys: None,
        volume: volume(generation),
        volume_revision: 40,
        pool: Pool {
            id: PoolId(1),
            name: "p".to_owned(),
            kind: PoolKind::Replicated {
                copies: 3,
                min_copies: 2,
            },
            groups: 4,
            chunk_bytes: 4 << 20,
            failure_domain: amita_types::placement::Level::Node,
            class: None,
        },
        generation: Generation(generation),
        owner: NodeId(1),
        groups: Vec::new(),
    }
}

fn volume(generation: u32) -> map::Volume {
    map::Volume {
        generation: Generation(generation),
        owner: Some(NodeId(1)),
        ..map::Volume::new(VolumeId(5), "v", "p", 1 << 30)
    }
}

fn view(epoch: u64, syncing: Vec<Syncing>) -> View {
    let group = Group {
        index: GroupIndex(3),
        epoch: Epoch(epoch),
        members: Vec::new(),
        in_sync: vec![StoreId(1)],
        syncing,
    };
    let mut view = View::default();
    view.apply(&Record {
        key: map::group_key(PoolId(1), GroupIndex(3)),
        value: Some(serde_json::to_vec(&group).unwrap()),
        revision: 1,
        created: 1,
    });
    view
}

fn written(call: &Call) -> Whole {
    let Op::Put { value, .. } = &call.then[0] else {
        panic!("a claim is put")
    };
    serde_json::from_slice(value).unwrap()
}

#[test]
fn a_store_is_claimed_when_every_core_has_said_so() {
    let mut claims = Claims::new(2, 0);
    claims.opened(&opened(4));
    let view = view(
        9,
        vec![Syncing {
            store: MEMBER.1,
            since: MEMBER.2,
        }],
    );
    claims.said(VolumeId(5), Generation(4), 0, MEMBER);
    claims.said(VolumeId(5), Generation(4), 0, MEMBER);
    assert!(claims.calls(Time(1), &view).is_empty(), "one core of two");
    claims.said(VolumeId(5), Generation(3), 1, MEMBER);
    assert!(
        claims.calls(Time(1), &view).is_empty(),
        "an older generation says nothing"
    );
    claims.said(VolumeId(5), Generation(4), 1, MEMBER);
    let calls = claims.calls(Time(1), &view);
    assert_eq!(written(&calls[0].1).members.len(), 1);
    assert!(claims.calls(Time(1), &view).is_empty(), "one call at a time");
    let unavailable = Error::Unavailable {
        endpoints: "none".to_owned(),
        what: "away".to_owned(),
    };
    assert!(claims.ended(Time(1), calls[0].0, &Err(unavailable)));
    assert!(claims.calls(Time(1), &view).is_empty(), "not at once again");
    let again = claims.deadline().expect("it is tried again");
    assert_eq!(claims.calls(again, &view).len(), 1);
}

#[test]
fn a_claim_falls_with_the_ownership() {
    let mut claims = Claims::new(1, 0);
    claims.opened(&opened(4));
    claims.said(VolumeId(5), Generation(4), 0, MEMBER);
    let view = view(
        9,
        vec![Syncing {
            store: MEMBER.1,
            since: MEMBER.2,
        }],
    );
    let reply = |generation, revision| Reply {
        succeeded: false,
        revision,
        results: vec![OpReply::Values(vec![KeyValue::from(amita_metadata::Record {
            key: map::volume_key("v"),
            value: serde_json::to_vec(&volume(generation)).unwrap(),
            create_revision: 1,
            mod_revision: revision,
            version: 1,
            lease: None,
        })])],
    };
    let (call, request) = claims.calls(Time(1), &view).remove(0);
    assert!(matches!(&request.compares[0], Compare::ModRevision { equals: 40, .. }));
    // The record has changed and is still ours (its size, say): once more.
    claims.ended(Time(1), call, &Ok(reply(4, 41)));
    let (call, request) = claims.calls(Time(1), &view).remove(0);
    assert!(matches!(&request.compares[0], Compare::ModRevision { equals: 41, .. }));
    claims.ended(Time(1), call, &Ok(reply(5, 42)));
    assert!(claims.calls(Time(1), &view).is_empty());
    assert_eq!(claims.deadline(), None);
}

#[test]
fn what_is_of_no_use_any_more_is_left_out() {
    let mut claims = Claims::new(1, 0);
    claims.opened(&opened(4));
    claims.said(VolumeId(5), Generation(4), 0, MEMBER);
    let (_, call) = claims.calls(Time(1), &view(8, Vec::new())).remove(0);
    assert_eq!(written(&call).members.len(), 1, "what was seen is older than the claim");
    let mut claims = Claims::new(1, 0);
    claims.opened(&opened(4));
    claims.said(VolumeId(5), Generation(4), 0, MEMBER);
    let (_, call) = claims.calls(Time(1), &view(10, Vec::new())).remove(0);
    assert!(written(&call).members.is_empty(), "it is in sync, or was dropped");
}
