//! Both ends of a mirror are left: at a point, in the middle of the first copy, joined by halves; and one of several volumes goes over when hosts have let go.

use super::{BYTES, CLOSED, MIB, MIRROR, MIRRORED, Pair, await_later, compare_point, is_refused, let_in, mirror, role};
use crate::reverts::{compare, open, write};
use crate::world::{World, eventually, pattern};
use serde_json::{Value, json};

/// The second volume of a mirror.
const LOG: &str = "db-log";
const LOG_BYTES: u64 = 8 * MIB;

/// A mirror of these volumes, whose first point is the only one for as long as the test runs; what the other end joins it by.
fn add(pair: &Pair, file: &str, volumes: &[&str]) -> String {
    let file = pair.near.file(file).display().to_string();
    let more = ["--bootstrap", &file, "--interval", "1h"];
    let add = ["mirror", "add", MIRROR];
    pair.near.amita_done(&[&add[..], volumes, &more].concat());
    file
}

fn offer(world: &World, volumes: &[&str]) {
    for volume in volumes {
        world.cluster.offer_by_nbd(volume).expect("it is offered");
    }
}

fn names(list: &Value) -> Vec<String> {
    let all = list.as_array().expect("a list").iter();
    all.filter_map(|found| found["name"].as_str().map(str::to_owned))
        .collect()
}

fn delete(world: &World, volume: &str) {
    // Who had it a moment ago may not have left yet.
    eventually("it is deleted", || {
        let deleted = world.amita(&["volume", "delete", volume, "--now", "--snapshots", "--force"]);
        deleted.status.success()
    });
}

#[test]
fn several_volumes_go_over_together_when_hosts_have_let_go_of_them() {
    let pair = Pair::of(1, 1);
    let (near, far) = (&pair.near, &pair.far);
    let bytes = LOG_BYTES.to_string();
    near.amita_done(&["volume", "create", LOG, "--pool", "demo", "--size", &bytes]);
    offer(near, &[LOG]);
    let (mut db, mut log) = (vec![0; BYTES as usize], vec![0; LOG_BYTES as usize]);
    let mut client = open(near, 0, MIRRORED);
    write(&mut client, &mut db, MIB, &pattern(1, MIB as usize));
    let file = add(&pair, "two.join", &[MIRRORED, LOG]);
    pair.join_by(&file, &[]).success().expect("it joins");
    offer(far, &[MIRRORED, LOG]);
    await_later(far, &None);
    compare_point(far, &db);
    // Both have something that no point has yet. One host uses one of them.
    write(&mut client, &mut db, 9 * MIB, &pattern(2, MIB as usize));
    let mut of_log = open(near, 0, LOG);
    write(&mut of_log, &mut log, MIB, &pattern(3, MIB as usize));
    client.close();
    // The one of the other may not have left yet.
    eventually("who uses a volume is named", || {
        let refused = near.amita(&["mirror", "demote", MIRROR]);
        assert_eq!(refused.status.code(), Some(5), "{}", refused.text);
        refused.text.contains(&format!("{LOG} is in use at node"))
    });
    assert_eq!(role(near), "primary");
    // The gateway has both still, and nobody uses them.
    of_log.close();
    eventually("it is demoted", || {
        near.amita(&["mirror", "demote", MIRROR]).status.success()
    });
    is_refused(near);
    let promoted = far.json(&["mirror", "promote", MIRROR]);
    assert_eq!(promoted["role"], "primary", "{promoted}");
    compare(far, 0, MIRRORED, &db);
    compare(far, 0, LOG, &log);
    // The end of before is given up, with what it has.
    near.amita_done(&["mirror", "remove", MIRROR, "--delete", "--yes"]);
    let left = names(&near.json(&["volume", "list"]));
    assert!(!left.iter().any(|name| name == MIRRORED || name == LOG), "{left:?}");
    far.amita_done(&["mirror", "remove", MIRROR, "--yes"]);
    compare(far, 0, MIRRORED, &db);
    let Pair { near, far, .. } = pair;
    near.end(CLOSED);
    far.end(CLOSED);
}

#[test]
fn a_mirror_that_is_removed_at_both_ends_is_added_again_under_its_name() {
    let pair = Pair::of(1, 1);
    let (near, far) = (&pair.near, &pair.far);
    let mut content = vec![0; BYTES as usize];
    let mut client = open(near, 0, MIRRORED);
    write(&mut client, &mut content, MIB, &pattern(1, MIB as usize));
    let points = || {
        let mut found = names(&near.json(&["volume", "snapshot", "list", MIRRORED]));
        found.retain(|name| name.starts_with("mirror-"));
        found
    };
    let file = add(&pair, "first.join", &[MIRRORED]);
    pair.join_by(&file, &[]).success().expect("it joins");
    offer(far, &[MIRRORED]);
    await_later(far, &None);
    near.amita_done(&["mirror", "remove", MIRROR, "--yes"]);
    let first = points();
    assert_eq!(first.len(), 1, "{first:?}");
    // The far end has what the point has, for hosts.
    is_refused(far);
    far.amita_done(&["mirror", "remove", MIRROR, "--yes"]);
    let_in(far).close();
    compare(far, 0, MIRRORED, &content);
    delete(far, MIRRORED);
    write(&mut client, &mut content, 5 * MIB, &pattern(2, MIB as usize));
    let file = add(&pair, "second.join", &[MIRRORED]);
    pair.join_by(&file, &[]).success().expect("it joins anew");
    assert_eq!(await_later(far, &None).as_deref(), Some("0-1"), "as the first one");
    compare_point(far, &content);
    let both = points();
    assert!(both.len() == 2 && both.contains(&first[0]), "{both:?}");
    near.amita_done(&["volume", "snapshot", "delete", MIRRORED, &first[0]]);
    client.close();
    let Pair { near, far, .. } = pair;
    near.end(CLOSED);
    far.end(CLOSED);
}

#[test]
fn an_end_that_never_arrived_at_a_point_is_given_up() {
    let pair = Pair::of(1, 1);
    let (near, far) = (&pair.near, &pair.far);
    let mut content = vec![0; BYTES as usize];
    let mut client = open(near, 0, MIRRORED);
    // At 256 KiB a second it takes a minute and a half.
    write(&mut client, &mut content, 0, &pattern(1, BYTES as usize));
    client.close();
    let file = add(&pair, "first.join", &[MIRRORED]);
    let joined = pair.join_by(&file, &["--limit-rate", "256K"]);
    joined.success().expect("it joins");
    offer(far, &[MIRRORED]);
    eventually("something was brought", || {
        let brought = mirror(far)["pass"]["volumes"][0]["written_bytes"].as_u64();
        brought.is_some_and(|bytes| bytes > 0)
    });
    near.amita_done(&["mirror", "remove", MIRROR, "--yes"]);
    for refused in [
        &[
            "mirror",
            "promote",
            MIRROR,
            "--force",
            "--yes",
            "--seal-key",
            &pair.far_seal,
        ][..],
        &["volume", "delete", MIRRORED, "--now", "--force"],
    ] {
        let said = far.amita(refused);
        assert_eq!(said.status.code(), Some(5), "{refused:?}: {}", said.text);
    }
    is_refused(far);
    assert_eq!(mirror(far)["point"], Value::Null);
    far.amita_done(&["mirror", "remove", MIRROR, "--yes"]);
    assert_eq!(far.json(&["mirror", "list"]), json!([]));
    let mut client = let_in(far);
    client.write(0, &[1; 4096]).expect("it is a volume like others");
    client.close();
    delete(far, MIRRORED);

    // Of two volumes one has a name that is taken, and nobody mends that.
    near.amita_done(&["volume", "create", LOG, "--pool", "demo", "--size", "8M"]);
    far.amita_done(&["volume", "create", LOG, "--pool", "demo", "--size", "8M"]);
    let file = add(&pair, "second.join", &[MIRRORED, LOG]);
    let refused = pair.join_by(&file, &[]);
    assert_eq!(refused.status.code(), Some(5), "{}", refused.text);
    assert_eq!(mirror(far)["volumes"], json!([MIRRORED]));
    far.amita_done(&["mirror", "remove", MIRROR, "--delete", "--yes"]);
    let left = names(&far.json(&["volume", "list"]));
    assert!(
        left.iter().any(|name| name == LOG) && !left.iter().any(|name| name == MIRRORED),
        "{left:?}"
    );
    near.amita_done(&["mirror", "remove", MIRROR, "--yes"]);
    let Pair { near, far, .. } = pair;
    near.end(CLOSED);
    far.end(CLOSED);
}
