//! The data of volumes: what is refused, and what bounds there are. That bytes are what they were is shown with nodes (`e2e data::`).

use super::every::{put, world};
use super::world::World;
use amita_api::{
    Api, Asking, Changed, DataPath, Diff, Differences, Going, Image, Imported, MirrorRead, Problem, Revert, Reverted,
    Sink, Source, router,
};
use amita_control::admin;
use amita_identity::OperatorRole::{self, Admin, Operator, Viewer};
use amita_metadata::Transact;
use amita_types::map::{self, Volume};
use axum::body::Body;
use http::{Request, header};
use serde_json::json;
use std::io::Read as _;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SIZE: u64 = 1 << 30;

/// A way to the data that copies when it is told to, and says what it was asked for.
#[derive(Debug)]
pub struct Path {
    asked: Mutex<Vec<String>>,
    go: Mutex<Receiver<()>>,
}

impl Path {
    fn note(&self, what: String) {
        self.asked.lock().unwrap().push(what);
    }
}

impl DataPath for Path {
    fn revert(&self, _: &Asking, revert: &Revert<'_>) -> Result<Reverted, Problem> {
        (revert.check)()?;
        let Revert {
            volume, snapshot, keep, ..
        } = revert;
        self.note(format!("revert {volume}@{snapshot} {keep}"));
        Ok(Reverted {
            record_id: 7,
            id: 3,
            kept: keep.then(|| "before".to_owned()),
            size_bytes: SIZE,
            snapshot_size_bytes: SIZE,
            levels: 1,
            flattening: false,
        })
    }

    fn diff(&self, _: &Asking, diff: &Diff<'_>) -> Result<Differences, Problem> {
        self.note(format!(
            "diff {} {:?} {} {}",
            diff.from, diff.to, diff.after, diff.limit
        ));
        let extents = vec![Changed {
            offset: 4096,
            length: 8192,
            is_zero: true,
        }];
        Ok(Differences {
            from_size_bytes: SIZE,
            size_bytes: SIZE,
            extents,
            next: Some(12288),
        })
    }

    fn export(&self, _: &Asking, name: &str, sink: &mut dyn Sink, going: &Going) -> Result<(), Problem> {
        sink.begin(5)?;
        // It ends when the test says so, or is gone; or when nobody wants it.
        let told = || self.go.lock().unwrap().recv_timeout(Duration::from_millis(10));
        while told() == Err(RecvTimeoutError::Timeout) {
            going
                .check()
                .inspect_err(|why| self.note(format!("export {}", why.code)))?;
        }
        sink.write(name.as_bytes()[..2].to_vec())?;
        sink.write(b"abc".to_vec())
    }

    fn import(&self, _: &Asking, image: &Image<'_>, mut from: Box<dyn Source>) -> Result<Imported, Problem> {
        (image.check)()?;
        let mut bytes = Vec::new();
        let read = from.read_to_end(&mut bytes);
        self.note(format!("import {} {read:?}", image.volume));
        from.check()?;
        Ok(Imported {
            size_bytes: SIZE,
            written_bytes: bytes.len() as u64,
        })
    }

    fn mirror(&self, _: &Asking, read: &MirrorRead<'_>, sink: &mut dyn Sink, going: &Going) -> Result<(), Problem> {
        let MirrorRead {
            volume,
            snapshot,
            base,
            after,
            limit_bytes_per_s,
        } = read;
        self.note(format!(
            "mirror {volume}@{snapshot} {base:?} {after} {limit_bytes_per_s:?}"
        ));
        sink.begin(SIZE)?;
        let told = || self.go.lock().unwrap().recv_timeout(Duration::from_millis(10));
        while told() == Err(RecvTimeoutError::Timeout) {
            going.check()?;
        }
        sink.write(b"frames".to_vec())
    }
}

fn world_with_data() -> (World, Arc<Path>, Sender<()>) {
    with_data(world())
}

/// A way that is told nothing.
pub fn way() -> Arc<dyn DataPath> {
    Arc::new(Path {
        asked: Mutex::default(),
        go: Mutex::new(channel().1),
    })
}

pub fn with_data(world: World) -> (World, Arc<Path>, Sender<()>) {
    let (go, told) = channel();
    let path = Arc::new(Path {
        asked: Mutex::default(),
        go: Mutex::new(told),
    });
    let api = Api::new(Arc::clone(&world.meta) as Arc<dyn Transact + Send + Sync>);
    let router = router(api.with_data(Arc::clone(&path) as Arc<dyn DataPath>));
    (world.by(router), path, go)
}

pub fn asked(path: &Path) -> Vec<String> {
    std::mem::take(&mut *path.asked.lock().unwrap())
}

async fn import(world: &World, who: OperatorRole, headers: &[(&str, &str)], body: &str) -> super::world::Said {
    let mut request = Request::builder().method("PUT").uri("/api/v1/volumes/db/data");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    world
        .send(Some(who), request.body(Body::from(body.to_owned())).unwrap())
        .await
}

#[tokio::test]
async fn a_revert_is_of_what_was_looked_at() {
    let (world, path, _go) = world_with_data();
    let at = "/api/v1/volumes/db/snapshots/monday/revert";
    let body = || Some(json!({}));
    world.ask(Viewer, "POST", at, body()).await.is(403, "denied");
    world.ask(Operator, "POST", at, body()).await.is(428, "needs-if-match");
    world
        .ask_if(Operator, "POST", at, body(), Some("\"old\""))
        .await
        .is(412, "changed");
    world
        .ask_if(Operator, "POST", at, Some(json!({ "keep": 1 })), Some("*"))
        .await
        .is(400, "bad-request");
    world
        .ask_if(Operator, "POST", &at.replace("db", "nobody"), body(), Some("*"))
        .await
        .is(404, "not-found");
    assert_eq!(asked(&path), Vec::<String>::new());
    let tag = world.ask(Viewer, "GET", "/api/v1/volumes/db", None).await.tag;
    let said = world
        .ask_if(Operator, "POST", at, body(), tag.as_deref())
        .await
        .done(200);
    assert_eq!(
        (&said.body["kept"], &said.body["snapshot"]),
        (&json!("before"), &json!("monday"))
    );
    let lost = json!({ "keep_snapshot": false });
    let said = world
        .ask_if(Operator, "POST", at, Some(lost), Some("*"))
        .await
        .done(200);
    assert_eq!(said.body["kept"], json!(null));
    assert_eq!(asked(&path), ["revert db@monday true", "revert db@monday false"]);
    // Done twice, it would lose what is written in between.
    for (keep, status) in [(false, 400), (true, 200)] {
        let request = Request::builder()
            .method("POST")
            .uri(at)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::IF_MATCH, "*")
            .header("idempotency-key", format!("key {keep}"))
            .body(Body::from(json!({ "keep_snapshot": keep }).to_string()))
            .unwrap();
        world.send(Some(Operator), request).await.done(status);
    }
    assert_eq!(asked(&path), ["revert db@monday true"]);
    // Somebody else had it since.
    let volume = Volume {
        size_bytes: SIZE * 2,
        ..admin::volume(&*world.meta, "db").unwrap()
    };
    put(&world.meta, map::volume_key("db"), &volume);
    world
        .ask_if(Operator, "POST", at, body(), tag.as_deref())
        .await
        .is(412, "changed");
    assert_eq!(asked(&path), Vec::<String>::new());
}

#[tokio::test]
async fn a_diff_comes_in_pieces_to_who_may_have_the_data() {
    let (world, path, _go) = world_with_data();
    let at = "/api/v1/volumes/db/diff";
    world
        .ask(Viewer, "GET", &format!("{at}?from=monday"), None)
        .await
        .is(403, "denied");
    for bad in [
        "",
        "?to=a",
        "?from=a&limit=0",
        "?from=a&limit=10001",
        "?from=a&after=x",
        "?from=a&b=c",
    ] {
        world
            .ask(Admin, "GET", &format!("{at}{bad}"), None)
            .await
            .is(400, "bad-request");
    }
    world
        .ask(Admin, "GET", "/api/v1/volumes/nobody/diff?from=a", None)
        .await
        .is(404, "not-found");
    assert_eq!(asked(&path), Vec::<String>::new());
    let said = world
        .ask(Operator, "GET", &format!("{at}?from=monday"), None)
        .await
        .done(200);
    assert_eq!(
        said.body["items"],
        json!([{ "offset": 4096, "length": 8192, "kind": "zero" }])
    );
    let log = world.ask(Admin, "GET", "/api/v1/audit?limit=100", None).await.done(200);
    let told = log.body["items"].as_array().unwrap();
    let is_it = |one: &&serde_json::Value| one["action"] == "volume.export-data" && one["outcome"] == "done";
    assert_eq!(told.iter().filter(is_it).count(), 1, "{told:?}");
    let next = said.body["next"].as_str().unwrap();
    world
        .ask(
            Operator,
            "GET",
            &format!("{at}?from=monday&to=b&limit=7&after={next}"),
            None,
        )
        .await
        .done(200);
    assert_eq!(
        asked(&path),
        ["diff monday None 0 1000", "diff monday Some(\"b\") 12288 7"]
    );
}

#[tokio::test]
async fn two_images_are_copied_at_once_and_the_third_is_told_to_come_again() {
    let (world, _path, go) = world_with_data();
    let at = "/api/v1/volumes/db/export?snapshot=monday";
    world.ask(Viewer, "GET", at, None).await.is(403, "denied");
    world
        .ask(Admin, "GET", "/api/v1/volumes/db/export?snapshot=no", None)
        .await
        .is(404, "not-found");
    let begin = || async {
        let request = Request::builder().uri(at).body(Body::empty()).unwrap();
        world.begin(Operator, request).await
    };
    let (one, other) = (begin().await, begin().await);
    assert_eq!((one.status().as_u16(), other.status().as_u16()), (200, 200));
    assert_eq!(one.headers()[header::CONTENT_LENGTH], "5");
    assert_eq!(
        one.headers()[header::CONTENT_DISPOSITION],
        "attachment; filename=\"db@monday.raw\""
    );
    let third = begin().await;
    assert_eq!(
        (third.status().as_u16(), third.headers()[header::RETRY_AFTER].as_bytes()),
        (429, &b"5"[..])
    );
    // Others do not wait for them, and what the size is can be asked.
    world.ask(Viewer, "GET", "/api/v1/volumes/db", None).await.done(200);
    world.ask(Operator, "HEAD", at, None).await.done(200);
    for _ in 0..2 {
        go.send(()).unwrap();
    }
    for response in [one, other] {
        let bytes = axum::body::to_bytes(response.into_body(), 100).await.unwrap();
        assert_eq!(&bytes[..], b"dbabc");
    }
    let log = world.ask(Admin, "GET", "/api/v1/audit?limit=100", None).await.done(200);
    let told = log.body.to_string();
    assert!(
        told.contains("volume.export-data") && told.contains("db@monday"),
        "{told}"
    );
}

#[tokio::test]
async fn a_copy_whose_reader_has_gone_gives_its_place_back_without_having_moved() {
    let (world, path, _go) = world_with_data();
    let at = "/api/v1/volumes/db/export?snapshot=monday";
    for _ in 0..3 {
        let request = Request::builder().uri(at).body(Body::empty()).unwrap();
        let copy = world.begin(Operator, request).await;
        assert_eq!(copy.status().as_u16(), 200);
        drop(copy);
        while asked(&path) != ["export incomplete"] {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // Its end is told before its place is free.
        let is_copying = || async {
            let log = world.ask(Admin, "GET", "/api/v1/audit?limit=100", None).await.done(200);
            log.body["items"].as_array().is_none_or(|all| {
                let of = |outcome: &str| all.iter().filter(|one| one["outcome"] == outcome).count();
                of("begun") != of("failed")
            })
        };
        while is_copying().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test]
async fn a_copy_ends_when_its_token_is_revoked() {
    let (world, path, _go) = world_with_data();
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let wanted = admin::NewToken {
        name: "backup".to_owned(),
        role: Operator,
        made_by: "alice".to_owned(),
        life: Duration::from_secs(600),
    };
    let (record, secret) = admin::create_token(&*world.meta, &wanted, now).unwrap();
    let request = Request::builder()
        .uri("/api/v1/volumes/db/export?snapshot=monday")
        .header(header::AUTHORIZATION, format!("Bearer {}", *secret.to_text()))
        .body(Body::empty())
        .unwrap();
    let copy = world.begin(Viewer, request).await;
    assert_eq!(copy.status().as_u16(), 200);
    admin::revoke_token(&*world.meta, &record.id).unwrap();
    // Nothing moves, and nobody goes: it is ended all the same, and is not taken for the whole.
    axum::body::to_bytes(copy.into_body(), 100).await.unwrap_err();
    assert_eq!(asked(&path), ["export unauthenticated"]);
}

#[tokio::test]
async fn an_image_is_refused_before_anything_of_it_is_written() {
    let (world, path, _go) = world_with_data();
    let any = ("if-match", "*");
    let length = ("content-length", "5");
    import(&world, Viewer, &[any, length], "abcde").await.is(403, "denied");
    import(&world, Operator, &[length], "abcde")
        .await
        .is(428, "needs-if-match");
    import(&world, Operator, &[("if-match", "\"old\""), length], "abcde")
        .await
        .is(412, "changed");
    import(&world, Operator, &[any], "abcde").await.is(400, "bad-request");
    import(&world, Operator, &[any, ("content-length", "0")], "")
        .await
        .is(400, "bad-request");
    import(&world, Operator, &[any, ("content-length", "1073741825")], "a")
        .await
        .is(409, "no-room");
    import(
        &world,
        Operator,
        &[any, length, ("content-digest", "sha-256=x")],
        "abcde",
    )
    .await
    .is(400, "bad-request");
    import(&world, Operator, &[any, length, ("idempotency-key", "1")], "abcde")
        .await
        .is(400, "bad-request");
    assert_eq!(asked(&path), Vec::<String>::new());
    let id = admin::volume(&*world.meta, "db").unwrap().id;
    let about = map::About {
        protected: true,
        ..map::About::of(id)
    };
    put(&world.meta, map::about_key(id), &about);
    import(&world, Operator, &[any, length], "abcde")
        .await
        .is(409, "in-use");
    assert_eq!(asked(&path), Vec::<String>::new());
    put(&world.meta, map::about_key(id), &map::About::of(id));
    let said = import(&world, Operator, &[any, length], "abcde").await.done(200);
    assert_eq!(
        said.body["sha256"],
        json!("36bbe50ed96841d10443bcb670d6554f0a34b761be67ec9c4a8ad2c0c44ca42c")
    );
    // The base64 of another one's.
    let wrong = (
        "content-digest",
        "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:",
    );
    import(&world, Operator, &[any, length, wrong], "abcde")
        .await
        .is(422, "incomplete");
    // It is cut short.
    import(&world, Operator, &[any, length], "abc")
        .await
        .is(422, "incomplete");
    let asked = asked(&path);
    assert_eq!(asked[..2], ["import db Ok(5)", "import db Ok(5)"]);
    assert!(asked[2].contains("has gone"), "{asked:?}");
    // A body of the usual size is the most that others take.
    let large = Some(json!({ "name": "x".repeat(300 << 10) }));
    world
        .ask(Operator, "POST", "/api/v1/volumes/db/rename", large)
        .await
        .is(413, "too-large");
    let large = "a".repeat(300 << 10);
    let said = import(&world, Operator, &[any, ("content-length", "307200")], &large)
        .await
        .done(200);
    assert_eq!(said.body["written_bytes"], json!(307_200));
}

#[tokio::test]
async fn a_node_without_a_way_to_the_data_says_so() {
    let world = world();
    let said = world.ask(Admin, "GET", "/api/v1/volumes/db/export", None).await;
    said.is(409, "wrong-state");
}
