use super::*;
use amita_types::message::{ChunksRequest, OpenRequest, Scope, VerifyRequest};
use amita_types::{
    BlockIndex, ChunkIndex, Epoch, Generation, GroupId, GroupIndex, PoolId, RequestId, SnapshotId, StoreId, Version,
    VolumeId,
};
use proptest::prelude::*;

#[test]
fn a_window_is_full_by_requests_or_by_bytes() {
    let mut window = Window::new(2, 1000);
    assert!(window.take(1, 600));
    assert!(!window.admits(401) && window.admits(400));
    assert!(window.take(2, 100));
    assert!(!window.admits(1), "two requests are in flight");
    assert_eq!(window.settle(1), Some(600));
    assert!(window.admits(900));
    assert_eq!(window.settle(1), None, "answered already");
    assert!(!window.could_admit(1001) && window.could_admit(1000));
}

#[test]
fn a_resend_counts_again_and_is_answered_twice() {
    let mut window = Window::new(10, 1000);
    assert!(window.take(7, 100) && window.take(7, 100));
    assert!(!window.take(7, 101), "another request under the same id");
    assert_eq!((window.requests(), window.bytes()), (2, 200));
    assert_eq!(
        (window.settle(7), window.settle(7), window.settle(7)),
        (Some(100), Some(100), None)
    );
    assert_eq!((window.requests(), window.bytes()), (0, 0));
}

/// Both ends compute a charge from the request alone: it must cover what the answer may be (`docs/protocol-wire.md`,
/// "Limits").
#[test]
fn what_lists_is_charged_its_longest_answer() {
    let of = |body| {
        let scope = Scope {
            volume: VolumeId(1),
            generation: Generation(1),
            group: GroupId {
                pool: PoolId(1),
                index: GroupIndex(0),
            },
            epoch: Epoch(1),
            snapshot: SnapshotId::HEAD,
        };
        let (id, store) = (RequestId(1), StoreId(1));
        let trace = amita_types::TraceId::NONE;
        let request = Request {
            id,
            store,
            scope,
            trace,
            purpose: Default::default(),
            body,
        };
        charge(&request, 0)
    };
    let chunk = ChunkIndex(1);
    let (from, least) = (BlockIndex(0), Version::NONE);
    assert_eq!(of(RequestBody::Open(OpenRequest { chunk })), 128);
    assert_eq!(
        of(RequestBody::Verify(VerifyRequest { chunk, from, least })),
        128 + 1024
    );
    let (core, cores, groups) = (0, 1, 8);
    let chunks = RequestBody::Chunks(ChunksRequest {
        from: chunk,
        core,
        cores,
        groups,
        place: None,
    });
    assert_eq!(of(chunks), 128 + 8192);
}

proptest! {
    #[test]
    fn what_is_settled_is_free_again(steps in prop::collection::vec((0..6u64, 1..400u32, any::<bool>()), 0..200)) {
        let mut window = Window::new(5, 1000);
        let mut model: Vec<(u64, u32)> = Vec::new();
        for (id, charge, settle) in steps {
            if settle {
                let at = model.iter().position(|(other, _)| *other == id);
                prop_assert_eq!(window.settle(id), at.map(|at| model.remove(at).1));
            } else if window.admits(charge) {
                let same = model.iter().all(|(other, of)| *other != id || *of == charge);
                prop_assert_eq!(window.take(id, charge), same);
                if same {
                    model.push((id, charge));
                }
            }
            prop_assert_eq!(window.requests() as usize, model.len());
            prop_assert_eq!(window.bytes(), model.iter().map(|(_, charge)| charge).sum::<u32>());
            prop_assert!(window.requests() <= 5 && window.bytes() <= 1000);
        }
    }
}
