//! Two clusters are made the two ends of a mirror by the API of each: the far one asks the near one as its nodes do, by its token alone.

use super::world::{CLUSTER, Said, World, volume};
use amita_api::mirror::{MirrorBootstrap, MirrorLink, MirrorPeerTold};
use amita_api::{
    Api, Asking, Code, DataPath, Diff, Differences, Going, Image, Imported, MirrorRead, Problem, Revert, Reverted,
    Sink, Source, router,
};
use amita_control::admin;
use amita_identity::OperatorRole::{Admin, Operator, Viewer};
use amita_keys::SealKey;
use amita_metadata::Transact;
use amita_types::map::{Mirror, MirrorRole};
use amita_types::{ClusterId, MirrorId};
use axum::body::Body;
use http::{Request, header};
use serde_json::{Value, json};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::TempDir;

const FAR: ClusterId = ClusterId(33);
const ADDRESS: &str = "n1.near.example:7480";
const FAR_ADDRESS: &str = "n1.far.example:7480";

/// The way from the far cluster's node to the near one's, which may be lost a few times.
struct Bridge {
    near: Arc<World>,
    lost: Arc<AtomicUsize>,
}

impl fmt::Debug for Bridge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bridge")
    }
}

impl Bridge {
    fn ask(&self, near: &MirrorBootstrap, method: &str, rest: &str, body: Option<&MirrorPeerTold>) -> Said {
        let request = Request::builder()
            .method(method)
            .uri(format!("/api/v1/mirror-links/{}{rest}", near.mirror))
            .header(header::AUTHORIZATION, format!("Bearer {}", near.token))
            .header(header::CONTENT_TYPE, "application/json");
        let body = body.map_or_else(Body::empty, |body| Body::from(serde_json::to_string(body).unwrap()));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime
            .unwrap()
            .block_on(self.near.send(None, request.body(body).unwrap()))
    }
}

fn refused(said: &Said) -> Problem {
    Problem::new(Code::WrongState, format!("the other end answers {}", said.status))
}

fn no_data<T>() -> Result<T, Problem> {
    Err(Problem::new(Code::Internal, "no data is asked for here"))
}

impl DataPath for Bridge {
    fn revert(&self, _: &Asking, _: &Revert<'_>) -> Result<Reverted, Problem> {
        no_data()
    }

    fn diff(&self, _: &Asking, _: &Diff<'_>) -> Result<Differences, Problem> {
        no_data()
    }

    fn export(&self, _: &Asking, _: &str, _: &mut dyn Sink, _: &Going) -> Result<(), Problem> {
        no_data()
    }

    fn import(&self, _: &Asking, _: &Image<'_>, _: Box<dyn Source>) -> Result<Imported, Problem> {
        no_data()
    }

    fn mirror(&self, _: &Asking, _: &MirrorRead<'_>, _: &mut dyn Sink, _: &Going) -> Result<(), Problem> {
        no_data()
    }

    fn look_at_near_end(&self, near: &MirrorBootstrap) -> Result<MirrorLink, Problem> {
        let said = self.ask(near, "GET", "", None);
        match said.status.as_u16() {
            200 => Ok(serde_json::from_value(said.body).unwrap()),
            _ => Err(refused(&said)),
        }
    }

    fn tell_near_end(&self, near: &MirrorBootstrap, told: &MirrorPeerTold) -> Result<(), Problem> {
        let lost = self
            .lost
            .try_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if lost.is_ok() {
            return Err(Problem::new(Code::NotInTime, "no address of the other end answers"));
        }
        let said = self.ask(near, "PUT", "/peer", Some(told));
        match said.status.as_u16() {
            204 => Ok(()),
            _ => Err(refused(&said)),
        }
    }
}

struct Two {
    near: Arc<World>,
    far: World,
    lost: Arc<AtomicUsize>,
    file: PathBuf,
    _folder: TempDir,
}

impl Two {
    /// Two clusters with a pool `main` each, of which the near one has a volume `db`.
    async fn new() -> Two {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("seal.key");
        SealKey::generate().save(&file).unwrap();
        let near = Arc::new(World::new().sealing(&file));
        near.ask(Admin, "POST", "/api/v1/volumes", Some(volume("db")))
            .await
            .done(201);
        let lost = Arc::<AtomicUsize>::default();
        let bridge = Bridge {
            near: Arc::clone(&near),
            lost: Arc::clone(&lost),
        };
        let far = World::of(FAR);
        let api = Api::new(Arc::clone(&far.meta) as Arc<dyn Transact + Send + Sync>);
        let far = far.by(router(
            api.with_seal_key(Some(file.clone())).with_data(Arc::new(bridge)),
        ));
        Two {
            near,
            far,
            lost,
            file,
            _folder: folder,
        }
    }

    async fn create(&self) -> Value {
        let wanted = json!({ "name": "dr", "volumes": ["db"], "addresses": [ADDRESS], "interval_s": 10 });
        self.near
            .ask(Admin, "POST", "/api/v1/mirrors", Some(wanted))
            .await
            .done(201)
            .body
    }

    async fn join(&self, wanted: Value) -> Said {
        self.far.ask(Admin, "POST", "/api/v1/mirror-joins", Some(wanted)).await
    }

    async fn joined(&self) -> Value {
        let made = self.create().await;
        self.join(wanted(&made)).await.done(201).body
    }
}

/// The far end is to be of the other one's name, in pool `main`.
fn wanted(made: &Value) -> Value {
    json!({ "bootstrap": made["bootstrap"], "pool": "main", "addresses": [FAR_ADDRESS], "keep": 5 })
}

fn record(world: &World) -> Mirror {
    admin::mirror(&*world.meta, "dr").unwrap()
}

fn good_tokens(world: &World) -> usize {
    admin::tokens(&*world.meta).unwrap().len()
}

#[tokio::test]
async fn two_clusters_are_made_the_ends_of_a_mirror() {
    let two = Two::new().await;
    let made = two.create().await;
    assert_eq!(
        (
            &made["mirror"]["role"],
            &made["mirror"]["interval_s"],
            &made["mirror"]["keep"]
        ),
        (&json!("primary"), &json!(10), &json!(3))
    );
    let bootstrap = &made["bootstrap"];
    assert_eq!(
        (
            &bootstrap["version"],
            &bootstrap["name"],
            &bootstrap["addresses"],
            &bootstrap["cluster"]
        ),
        (&json!(1), &json!("dr"), &json!([ADDRESS]), &json!(CLUSTER))
    );
    let joined = two.join(wanted(&made)).await.done(201).body;
    assert_eq!(
        (
            &joined["role"],
            &joined["name"],
            &joined["volumes"],
            &joined["keep"],
            &joined["paused"]
        ),
        (
            &json!("secondary"),
            &json!("dr"),
            &json!(["db"]),
            &json!(5),
            &json!(null)
        )
    );
    assert_eq!(joined["id"], made["mirror"]["id"]);
    let (near, far) = (record(&two.near), record(&two.far));
    assert!(far.odd && !near.odd && !far.joining);
    assert_eq!(near.peer.cluster, Some(FAR));
    assert_eq!(near.peer.addresses, [FAR_ADDRESS]);
    assert_eq!(far.peer.cluster, Some(CLUSTER));
    assert_eq!(far.peer.addresses, [ADDRESS]);
    let copy = admin::volume(&*two.far.meta, "db").unwrap();
    let of = admin::volume(&*two.near.meta, "db").unwrap();
    assert_eq!(copy.size_bytes, of.size_bytes);
    assert_eq!(copy.closed.map(|closed| closed.mirror), Some(far.id));
    // No end's record or log has a token that can be read.
    let secret = bootstrap["token"].as_str().unwrap();
    for world in [&*two.near, &two.far] {
        let log = world.ask(Admin, "GET", "/api/v1/audit?limit=100", None).await.done(200);
        let log = log.body.to_string();
        assert!(log.contains("mirror.add") && !log.contains(secret), "{log}");
    }
    assert_ne!(far.peer.token, secret);
}

/// An answer was lost, or the whole of a joining: it is asked for again.
#[tokio::test]
async fn what_was_cut_short_is_joined_again() {
    let two = Two::new().await;
    let made = two.create().await;
    two.lost.store(1, Ordering::SeqCst);
    two.join(wanted(&made)).await.is(504, "not-in-time");
    let halves = record(&two.far);
    assert!(halves.joining && halves.paused.is_some());
    // The answer of the near end was lost too, and it is asked for another token.
    let again = json!({ "name": "dr", "volumes": ["db"], "addresses": [ADDRESS] });
    let path = "/api/v1/mirrors";
    two.near.ask(Admin, "POST", path, Some(again)).await.is(409, "exists");
    let made = two
        .near
        .ask(
            Admin,
            "POST",
            "/api/v1/mirrors/dr/token",
            Some(json!({ "addresses": [ADDRESS] })),
        )
        .await
        .done(201)
        .body;
    two.join(wanted(&made)).await.done(201);
    let whole = record(&two.far);
    assert!(!whole.joining && whole.paused.is_none());
    assert_eq!(whole.volumes, halves.volumes);
    assert_eq!(
        good_tokens(&two.far),
        1,
        "one that nobody was told of is good for nothing"
    );
    // Once more where it stands: the ends have other tokens, and nothing else is changed.
    two.join(json!({ "bootstrap": made["bootstrap"], "addresses": ["n2.far.example:7480"] }))
        .await
        .done(201);
    assert_eq!(good_tokens(&two.far), 2);
    assert_eq!(record(&two.near).peer.addresses, ["n2.far.example:7480"]);
    let same = Mirror {
        peer: whole.peer.clone(),
        ..record(&two.far)
    };
    assert_eq!(same, whole);
}

#[tokio::test]
async fn what_cannot_be_joined_is_refused_and_makes_nothing() {
    let two = Two::new().await;
    let made = two.create().await;
    let with = |field: &str, value: Value| {
        let mut wanted = wanted(&made);
        wanted[field] = value;
        wanted
    };
    let of = |field: &str, value: Value| {
        let mut wanted = wanted(&made);
        wanted["bootstrap"][field] = value;
        wanted
    };
    for (wanted, status, code) in [
        (with("pool", json!(null)), 422, "bad-setting"),
        (with("addresses", json!(["n1"])), 422, "bad-setting"),
        (with("authority", json!("x".repeat(40 << 10))), 422, "bad-setting"),
        (with("limit_bytes_per_second", json!(1000)), 422, "bad-setting"),
        (with("interval_s", json!(9)), 422, "bad-setting"),
        (with("encrypted", json!(true)), 409, "wrong-state"),
        (with("surplus", json!(1)), 400, "bad-request"),
        (of("version", json!(2)), 422, "bad-setting"),
        (of("token", json!("secret")), 422, "bad-setting"),
        (of("addresses", json!([])), 422, "bad-setting"),
        (of("cluster", json!(FAR)), 422, "bad-setting"),
        // The near cluster has no such mirror, and lets nobody in for it.
        (of("mirror", json!(MirrorId(5))), 409, "wrong-state"),
        // The last one: of this the record stays, to be gone on with, and no volume.
        (with("pool", json!("other")), 404, "not-found"),
    ] {
        let said = two.join(wanted.clone()).await;
        assert!(!said.body.to_string().contains("secret"), "{said:?}");
        said.is(status, code);
    }
    assert!(
        admin::mirrors(&*two.far.meta)
            .unwrap()
            .iter()
            .all(|mirror| mirror.volumes.is_empty())
    );
    for who in [Operator, Viewer] {
        let wanted = Some(wanted(&made));
        two.far
            .ask(who, "POST", "/api/v1/mirror-joins", wanted)
            .await
            .is(403, "denied");
    }
    // A node without a sealing key sends elsewhere; one that reaches no data says so.
    let bare = World::of(FAR);
    bare.ask(Admin, "POST", "/api/v1/mirror-joins", Some(wanted(&made)))
        .await
        .is(409, "wrong-state");
    let (unsealed, _path, _go) = super::data::with_data(World::of(FAR));
    unsealed
        .ask(Admin, "POST", "/api/v1/mirror-joins", Some(wanted(&made)))
        .await
        .is(421, "misdirected");
    // And one that asks no other cluster.
    let world = World::of(FAR);
    let api = Api::new(Arc::clone(&world.meta) as Arc<dyn Transact + Send + Sync>);
    let world = world.by(router(
        api.with_seal_key(Some(two.file.clone())).with_data(super::data::way()),
    ));
    world
        .ask(Admin, "POST", "/api/v1/mirror-joins", Some(wanted(&made)))
        .await
        .is(409, "wrong-state");
    // Only what hosts use is joined.
    let mut record = record(&two.near);
    record.standing.role = MirrorRole::Deposed;
    super::every::put(&two.near.meta, amita_types::map::mirror_key("dr"), &record);
    let said = two.join(wanted(&made)).await;
    assert!(said.body["detail"].as_str().unwrap().contains("is deposed"), "{said:?}");
    said.is(409, "wrong-state");
}

#[tokio::test]
async fn what_cannot_be_mirrored_is_refused() {
    let two = Two::new().await;
    let ask = |wanted: Value| two.near.ask(Admin, "POST", "/api/v1/mirrors", Some(wanted));
    let of = |field: &str, value: Value| {
        let mut wanted = json!({ "name": "dr", "volumes": ["db"], "addresses": [ADDRESS] });
        wanted[field] = value;
        wanted
    };
    for (wanted, status, code) in [
        (of("name", json!(".x")), 422, "bad-setting"),
        (of("name", json!("x".repeat(65))), 422, "bad-setting"),
        (of("volumes", json!([])), 422, "bad-setting"),
        (of("volumes", json!(["db", "db"])), 422, "bad-setting"),
        (of("volumes", json!(["other"])), 404, "not-found"),
        (of("addresses", json!(["n1:0"])), 422, "bad-setting"),
        // No node tells of its own.
        (of("addresses", json!([])), 422, "bad-setting"),
        (of("interval_s", json!(9)), 422, "bad-setting"),
        (of("keep", json!(253)), 422, "bad-setting"),
        (of("limit_bytes_per_second", json!(65535)), 422, "bad-setting"),
    ] {
        ask(wanted.clone()).await.is(status, code);
    }
    assert_eq!(
        (admin::mirrors(&*two.near.meta).unwrap().len(), good_tokens(&two.near)),
        (0, 0)
    );
    ask(of("never_deposed", json!(true))).await.done(201);
    assert!(record(&two.near).never_deposed);
    // One mirror has a volume, and one cluster a mirror of a name.
    ask(of("name", json!("second"))).await.is(422, "bad-setting");
}

#[tokio::test]
async fn an_end_is_removed_with_what_becomes_of_its_volumes() {
    for (volumes, is_there) in [("open", true), ("delete", false)] {
        let two = Two::new().await;
        two.joined().await;
        let remove = |world: &World, query: &str| {
            let path = format!("/api/v1/mirrors/dr{query}");
            let world = World::at(Arc::clone(&world.meta));
            async move { world.ask(Admin, "DELETE", &path, None).await }
        };
        // What becomes of its volumes has to be said.
        remove(&two.far, "").await.is(409, "wrong-state");
        remove(&two.far, "?volumes=keep").await.is(400, "bad-request");
        remove(&two.near, "?volumes=delete").await.is(409, "wrong-state");
        remove(&two.far, &format!("?volumes={volumes}")).await.done(204);
        let found = admin::volume(&*two.far.meta, "db");
        assert_eq!(found.is_ok(), is_there, "{volumes}: {found:?}");
        assert!(found.is_ok_and(|volume| volume.closed.is_none()) == is_there);
        remove(&two.far, "?volumes=open").await.is(404, "not-found");
        remove(&two.near, "?volumes=open&keep_points=false").await.done(204);
        assert!(admin::volume(&*two.near.meta, "db").is_ok());
        assert_eq!((good_tokens(&two.near), good_tokens(&two.far)), (0, 0));
    }
}
