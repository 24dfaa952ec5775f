//! Each call is cut at each of its requests, before it comes to a node and after it was carried out, and sent again to another controller: it comes to
//! the end of one that was not cut.

use super::fence::fence;
use super::group::{drop_group, take_both, two};
use super::place::{bound, made, sites};
use super::publish::{ONE, publish, unpublish};
use super::snapshot::drop_snapshot;
use super::*;

/// No call makes so many requests.
const MOST: usize = 40;

/// Cuts `call` everywhere, on clusters that `before` has prepared; and tries the ends that a second cut makes.
pub(super) async fn everywhere(before: impl AsyncFn(&Fake), call: impl AsyncFn(&Fake) -> Result<(), Status>) {
    everywhere_of(Fake::new, before, call).await;
}

async fn everywhere_of(
    begin: impl Fn() -> Fake,
    before: impl AsyncFn(&Fake),
    call: impl AsyncFn(&Fake) -> Result<(), Status>,
) {
    let fresh = async || {
        let fake = begin();
        before(&fake).await;
        fake.cut(None);
        fake
    };
    let whole = fresh().await;
    call(&whole).await.expect("it works when it is not cut");
    let requests = whole.asked().len();
    assert!((1..MOST).contains(&requests), "{:?}", whole.asked());
    call(&whole).await.expect("it works again");
    let end = whole.shape();
    let cuts = (1..=requests).flat_map(|at| [Cut::Before(at), Cut::After(at)]);
    for cut in cuts {
        for second in [None, Some(Cut::After(1)), Some(Cut::After(2)), Some(Cut::After(3))] {
            let fake = fresh().await;
            fake.cut(Some(cut));
            let refused = call(&fake).await.expect_err("it was cut");
            assert_eq!(refused.code(), Code::Unavailable, "{cut:?}: {refused}");
            if second.is_some() {
                fake.cut(second);
                // It may have come to its end before the cut.
                let _ = call(&fake).await;
            }
            fake.cut(None);
            let done = call(&fake).await;
            done.unwrap_or_else(|why| panic!("{cut:?}, {second:?}: {why}; {:?}", fake.asked()));
            assert_eq!(fake.shape(), end, "{cut:?}, {second:?}");
        }
    }
}

async fn one(fake: &Fake) {
    make(fake, wanted("one", GIB)).await.expect("made");
}

async fn one_with_a_snapshot(fake: &Fake) {
    one(fake).await;
    take(fake, "1:one", "s").await.expect("taken");
}

#[tokio::test]
async fn a_volume_is_made() {
    let request = CreateVolumeRequest {
        mutable_parameters: of(&[("iops", "500"), ("copies", "3")]),
        ..wanted("one", GIB)
    };
    everywhere(
        async |_: &Fake| {},
        async |fake: &Fake| make(fake, request.clone()).await.map(drop),
    )
    .await;
}

#[tokio::test]
async fn a_volume_is_made_at_a_place() {
    let request = bound("one", "east,west,both", "site", &[], &[]);
    everywhere_of(
        sites,
        async |_: &Fake| {},
        async |fake: &Fake| made(fake, request.clone()).await.map(drop),
    )
    .await;
}

#[tokio::test]
async fn a_volume_is_made_of_a_snapshot() {
    let request = CreateVolumeRequest {
        volume_content_source: from_snapshot("1:one@s"),
        ..wanted("two", 2 * GIB)
    };
    everywhere(one_with_a_snapshot, async |fake: &Fake| {
        make(fake, request.clone()).await.map(drop)
    })
    .await;
}

#[tokio::test]
async fn a_volume_is_cloned_to_be_read() {
    let request = CreateVolumeRequest {
        volume_capabilities: vec![mount(Mode::MultiNodeReaderOnly, "")],
        volume_content_source: from_volume("1:one"),
        ..wanted("two", 2 * GIB)
    };
    everywhere(one, async |fake: &Fake| make(fake, request.clone()).await.map(drop)).await;
}

#[tokio::test]
async fn a_volume_is_deleted() {
    everywhere(one, async |fake: &Fake| delete(fake, "1:one").await).await;
    everywhere(one_with_a_snapshot, async |fake: &Fake| delete(fake, "1:one").await).await;
}

#[tokio::test]
async fn the_last_snapshot_of_a_deleted_volume_is_deleted() {
    let before = async |fake: &Fake| {
        one_with_a_snapshot(fake).await;
        delete(fake, "1:one").await.expect("gone");
    };
    everywhere(before, async |fake: &Fake| drop_snapshot(fake, "1:one@s").await).await;
}

#[tokio::test]
async fn a_snapshot_is_taken_and_deleted() {
    everywhere(one, async |fake: &Fake| take(fake, "1:one", "s").await.map(drop)).await;
    everywhere(one_with_a_snapshot, async |fake: &Fake| {
        drop_snapshot(fake, "1:one@s").await
    })
    .await;
}

#[tokio::test]
async fn a_volume_is_published_and_taken_off() {
    let mode = Mode::SingleNodeWriter;
    everywhere(one, async |fake: &Fake| {
        publish(fake, "1:one", ONE, mode).await.map(drop)
    })
    .await;
    let published = async |fake: &Fake| {
        one(fake).await;
        publish(fake, "1:one", ONE, mode).await.expect("published");
    };
    everywhere(published, async |fake: &Fake| unpublish(fake, "1:one", ONE).await).await;
}

#[tokio::test]
async fn a_volume_grows() {
    let grow = async |fake: &Fake| {
        let request = ControllerExpandVolumeRequest {
            volume_id: "1:one".to_owned(),
            capacity_range: Some(CapacityRange {
                required_bytes: 3 * GIB,
                limit_bytes: 0,
            }),
            ..Default::default()
        };
        fake.controller().expand(request).await.map(drop)
    };
    everywhere(one, grow).await;
}

#[tokio::test]
async fn a_group_is_taken_and_deleted() {
    everywhere(two, async |fake: &Fake| take_both(fake).await.map(drop)).await;
    let taken = async |fake: &Fake| {
        two(fake).await;
        take_both(fake).await.expect("taken");
    };
    let ids = ["1:one@group-1", "2:two@group-1"];
    everywhere(taken, async |fake: &Fake| drop_group(fake, "1:group-1", &ids).await).await;
}

#[tokio::test]
async fn a_host_is_fenced() {
    let published = async |fake: &Fake| {
        two(fake).await;
        for volume in ["1:one", "2:two"] {
            publish(fake, volume, ONE, Mode::SingleNodeWriter)
                .await
                .expect("published");
        }
    };
    everywhere(published, async |fake: &Fake| fence(fake, &[ONE]).await).await;
}

/// A claim whose volume is wanted and then not, cut anywhere in between: nothing stays.
#[tokio::test]
async fn what_was_begun_and_is_not_wanted_goes() {
    let request = CreateVolumeRequest {
        volume_content_source: from_volume("1:one"),
        ..wanted("two", 2 * GIB)
    };
    for at in 1..MOST {
        let fake = Fake::new();
        one(&fake).await;
        fake.cut(Some(Cut::After(at)));
        let made = make(&fake, request.clone()).await;
        fake.cut(None);
        // As the provisioner does: it asks until it knows, and deletes what it was told.
        let (id, _) = match made {
            Ok(made) => made,
            Err(_) => make(&fake, request.clone()).await.expect("made"),
        };
        delete(&fake, &id).await.expect("gone");
        delete(&fake, "1:one").await.expect("gone");
        let cluster = fake.cluster();
        assert!(cluster.volumes.is_empty() && cluster.snapshots.is_empty(), "{at}");
    }
}
