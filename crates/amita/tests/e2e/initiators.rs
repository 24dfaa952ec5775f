//! The initiators that people have, and that need no kernel: QEMU's, and libiscsi's tools with its conformance suite. What operators do for
//! them is tested in `iscsi`.

mod conformance;

use crate::world::{
    A_NODE_IS_GONE, A_NODE_RETURNS, PATIENCE, VOLUME, VOLUME_BYTES, World, binary, eventually, pattern,
};
use amita_harness::tool::{self, Output};
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::FileExt;

const ONE: &str = "iqn.1993-08.org.debian:01:9c11913aa8b";
const OTHER: &str = "iqn.1993-08.org.debian:01:0123456789a";
/// What a gateway says of who was not let in, or was cut off.
const REFUSED: &str = "the connection of a host at";

/// A target with the volume as its LUN 0, to which any initiator may log in. Returns its iSCSI name.
fn offer(world: &World, block_bytes: &str) -> String {
    let made = world.json(&["target", "create", "db", "--any-initiator"]);
    world.amita_done(&["lun", "add", "db", VOLUME, "--block-size", block_bytes]);
    made["iqn"].as_str().expect("a name").to_owned()
}

fn portal(world: &World, node: usize) -> SocketAddr {
    world.cluster.nodes()[node].iscsi.expect("a cluster with portals")
}

/// LUN 0 of a target at a node, as QEMU's tools name it for an initiator.
fn lun(world: &World, node: usize, iqn: &str, initiator: &str) -> String {
    let portal = portal(world, node);
    format!("driver=iscsi,transport=tcp,portal={portal},target={iqn},lun=0,initiator-name={initiator}")
}

/// A file, likewise.
fn file(path: &str) -> String {
    format!("driver=raw,file.driver=file,file.filename={path}")
}

/// Waits until an initiator is let in at a node: what was just said there reaches all gateways a moment later.
fn await_login(world: &World, node: usize, iqn: &str, initiator: &str) {
    let lun = lun(world, node, iqn, initiator);
    eventually("the initiator is let in", || {
        world.tool("qemu-img", &["info", "--image-opts", &lun]).status.success()
    });
}

/// What discovery and REPORT LUNS show an initiator at a node.
fn seen(world: &World, node: usize, initiator: &str) -> Output {
    let url = format!("iscsi://{}", portal(world, node));
    world.tool("iscsi-ls", &["--show-luns", "--initiator-name", initiator, &url])
}

/// A file of the volume's size: data with holes between, and ends that lie on no block.
fn image(world: &World, seed: u64) -> String {
    let path = world.file(&format!("image-{seed}"));
    let file = std::fs::File::create(&path).expect("a file");
    file.set_len(VOLUME_BYTES).expect("a length");
    for (number, offset) in [0, 5_000_123, 20 << 20, VOLUME_BYTES - 70_000].into_iter().enumerate() {
        file.write_all_at(&pattern(seed + number as u64, 65_000 + number), offset)
            .expect("written");
    }
    path.display().to_string()
}

fn copy_in(world: &World, image: &str, lun: &str) {
    let arguments = ["convert", "-n", "-f", "raw", image, "--target-image-opts", lun];
    world.done("qemu-img", &arguments);
}

fn is_the_same(world: &World, image: &str, lun: &str) {
    let said = world.done("qemu-img", &["compare", "--image-opts", &file(image), lun]);
    assert!(said.contains("Images are identical"), "{said}");
}

#[test]
fn qemu_reads_back_what_it_wrote_by_every_gateway_and_after_one_died() {
    let mut world = World::with_portals(3, &[]);
    let iqn = offer(&world, "512");
    for node in 0..3 {
        await_login(&world, node, &iqn, ONE);
    }
    let first = image(&world, 7);
    copy_in(&world, &first, &lun(&world, 0, &iqn, ONE));
    for node in 0..3 {
        is_the_same(&world, &first, &lun(&world, node, &iqn, OTHER));
    }
    // Over old data, so that a hole of the image must become zeros; and out again.
    let second = image(&world, 70);
    copy_in(&world, &second, &lun(&world, 1, &iqn, ONE));
    let out = world.file("out").display().to_string();
    let source = lun(&world, 2, &iqn, ONE);
    world.done("qemu-img", &["convert", "--image-opts", &source, "-O", "raw", &out]);
    assert!(
        std::fs::read(&out).expect("read") == std::fs::read(&second).expect("read"),
        "what came out is not what went in"
    );
    // By NBD it is the same volume, and a grown one is as large at once.
    let said = world.done(
        "qemu-img",
        &["compare", "-f", "raw", "-F", "raw", &second, &world.uri(0)],
    );
    assert!(said.contains("Images are identical"), "{said}");
    world.amita_done(&["volume", "resize", VOLUME, "--size", &(2 * VOLUME_BYTES).to_string()]);
    let grown = lun(&world, 0, &iqn, ONE);
    eventually("the LUN has grown", || {
        let info = world.done("qemu-img", &["info", "--output=json", "--image-opts", &grown]);
        let info: serde_json::Value = serde_json::from_str(&info).expect("JSON");
        info["virtual-size"] == 2 * VOLUME_BYTES
    });
    let grown = std::fs::File::options().write(true).open(&second).expect("the image");
    grown.set_len(2 * VOLUME_BYTES).expect("a length");

    world.cluster.kill_node(0);
    for node in 1..3 {
        is_the_same(&world, &second, &lun(&world, node, &iqn, ONE));
    }
    copy_in(&world, &second, &lun(&world, 1, &iqn, ONE));
    world.cluster.start_node(0).expect("it starts");
    world.cluster.await_node(0).expect("it serves");
    await_login(&world, 0, &iqn, ONE);
    is_the_same(&world, &second, &lun(&world, 0, &iqn, ONE));
    // Who asks before the node knows the settings is told to come back.
    world.end(&[A_NODE_IS_GONE, A_NODE_RETURNS, &[REFUSED]].concat());
}

/// Logs in and stays, with digests of headers: a session that asks for nothing.
fn log_in(portal: SocketAddr, initiator: &str, iqn: &str, isid: u8) -> TcpStream {
    let mut text = Vec::new();
    for (key, value) in [
        ("InitiatorName", initiator),
        ("TargetName", iqn),
        ("SessionType", "Normal"),
        ("HeaderDigest", "CRC32C"),
    ] {
        text.extend(format!("{key}={value}\0").into_bytes());
    }
    // From the operational stage to the full feature phase at once (RFC 7143, 11.12).
    let mut request = vec![0; 48];
    (request[0], request[1]) = (0x43, 0x87);
    request[5..8].copy_from_slice(&(text.len() as u32).to_be_bytes()[1..]);
    request[8..14].copy_from_slice(&[0x80, 0, 0, 0, 0, isid]);
    request[19] = 1;
    text.resize(text.len().next_multiple_of(4), 0);
    request.extend(text);
    let mut stream = TcpStream::connect(portal).expect("connected");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    stream.write_all(&request).expect("sent");
    let mut answer = [0; 48];
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!((answer[0], answer[36], answer[37]), (0x23, 0, 0), "{answer:?}");
    stream
}

#[test]
fn the_sessions_of_all_gateways_are_listed() {
    let world = World::with_portals(3, &[]);
    let iqn = offer(&world, "512");
    for node in 0..2 {
        await_login(&world, node, &iqn, ONE);
    }
    let listed = |more: &[&str]| world.json(&[&["initiator", "sessions"], more].concat());
    assert_eq!(listed(&[]), serde_json::json!([]));
    let first = log_in(portal(&world, 0), ONE, &iqn, 1);
    let _second = log_in(portal(&world, 1), OTHER, &iqn, 2);
    let all = listed(&[]);
    assert_eq!(all.as_array().map(Vec::len), Some(2), "{all}");
    let (one, other) = (&all[0], &all[1]);
    assert_eq!((&one["node"], &other["node"]), (&"n1".into(), &"n2".into()), "{all}");
    assert_eq!((&one["initiator"], &other["initiator"]), (&ONE.into(), &OTHER.into()));
    assert_eq!((&one["target"], &one["iqn"]), (&"db".into(), &iqn.as_str().into()));
    assert_eq!(
        (&one["isid"], &one["header_digest"]),
        (&"800000000001".into(), &true.into())
    );
    let own = first.local_addr().expect("an address").to_string();
    assert_eq!((&one["peer"], &one["proven"]), (&own.into(), &false.into()));
    let nodes = world.json(&["node", "list"]);
    assert_eq!(one["tag"], nodes[0]["iscsi_tag"], "{nodes}");
    for (filter, found) in [
        (["--initiator", OTHER], 1),
        (["--target", "db"], 2),
        (["--node", "n1"], 1),
        (["--node", "n3"], 0),
    ] {
        assert_eq!(listed(&filter).as_array().map(Vec::len), Some(found), "{filter:?}");
    }
    for (filter, words) in [
        (["--initiator", "host"], "iqn."),
        (["--target", "web"], "there is db"),
        (["--node", "n9"], "there are n1, n2, n3"),
    ] {
        let refused = world.amita(&[&["initiator", "sessions"], &filter[..]].concat());
        assert!(
            !refused.status.success() && refused.text.contains(words),
            "{filter:?}: {}",
            refused.text
        );
    }
    drop(first);
    eventually("a session that is over is listed no more", || {
        listed(&["--node", "n1"]) == serde_json::json!([])
    });
    world.end(&[REFUSED]);
}

/// Commands for qemu-io, one block each.
fn each_block(command: &str, blocks: impl Iterator<Item = u64>) -> Vec<String> {
    let command = |block: u64| ["-c".to_owned(), format!("{command} {} 4k", block * 16384)];
    blocks.flat_map(command).collect()
}

#[test]
fn the_gateway_killed_in_the_middle_of_writing_loses_nothing_that_it_acknowledged() {
    const BLOCKS: u64 = VOLUME_BYTES / 16384;
    let mut world = World::with_portals(3, &[]);
    let iqn = offer(&world, "4096");
    for node in 0..2 {
        await_login(&world, node, &iqn, ONE);
    }
    let mut write = vec!["--image-opts".to_owned(), lun(&world, 0, &iqn, ONE)];
    write.extend(each_block("write -P 0x22", 0..BLOCKS));
    let mut writer = tool::start(world.folder(), "qemu-io", &write).expect("it starts");
    let log = writer.log().to_owned();
    let acknowledged = || -> Vec<u64> {
        let text = std::fs::read_to_string(&log).expect("a log");
        let lines = text.lines().filter_map(|line| {
            let offset = line.split_once("wrote 4096/4096 bytes at offset ")?.1;
            offset.trim().parse::<u64>().ok()
        });
        lines.map(|offset| offset / 16384).collect()
    };
    eventually("some blocks are written", || acknowledged().len() > 100);
    assert!(writer.ended().expect("asked").is_none(), "it ended before the kill");
    world.cluster.kill_node(0);
    // It tries to come back until it is ended.
    drop(writer);
    let acknowledged = acknowledged();
    assert!(acknowledged.len() < BLOCKS as usize, "it had ended before the kill");
    let mut check = vec!["-r".to_owned(), "--image-opts".to_owned(), lun(&world, 1, &iqn, OTHER)];
    check.extend(each_block("read -P 0x22", acknowledged.iter().copied()));
    let arguments: Vec<&str> = check.iter().map(String::as_str).collect();
    let said = world.done("qemu-io", &arguments);
    let read = said.matches("read 4096/4096 bytes").count();
    assert!(
        read == acknowledged.len() && !said.contains("Pattern verification failed"),
        "{} of {} blocks: {said}",
        read,
        acknowledged.len()
    );
    // What was never written is not there either.
    let last = each_block("read -P 0", std::iter::once(BLOCKS - 1));
    let untouched = [&check[..3], &last[..]].concat();
    let arguments: Vec<&str> = untouched.iter().map(String::as_str).collect();
    let said = world.done("qemu-io", &arguments);
    assert!(
        said.contains("read 4096/4096 bytes") && !said.contains("failed"),
        "{said}"
    );
    world.end(&[A_NODE_IS_GONE, &[REFUSED]].concat());
}

#[test]
fn a_store_that_dies_under_an_initiator_costs_a_pause_and_no_block() {
    let mut world = World::with_portals(3, &[]);
    // With blocks of 4,096 bytes QEMU 7.2 fails an assertion of its own when it reads much at once.
    let iqn = offer(&world, "512");
    await_login(&world, 0, &iqn, ONE);
    let volume = lun(&world, 0, &iqn, ONE);
    let load = [
        "bench",
        "-w",
        "-c",
        "40000",
        "-s",
        "4096",
        "-d",
        "16",
        "--pattern=0x5a",
        "--image-opts",
        &volume,
    ];
    let mut bench = tool::start(world.folder(), "qemu-img", load).expect("it starts");
    eventually("it is logged in", || sessions(&world) > 0);
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(bench.ended().expect("asked").is_none(), "it ended before the kill");
    world.cluster.kill_node(2);
    let status = bench.wait(PATIENCE).expect("it ends");
    let said = std::fs::read_to_string(bench.log()).unwrap_or_default();
    assert!(status.success(), "{said}");
    await_login(&world, 1, &iqn, ONE);
    let elsewhere = lun(&world, 1, &iqn, ONE);
    let whole = format!("read -P 0x5a 0 {VOLUME_BYTES}");
    let said = world.done("qemu-io", &["-r", "-c", &whole, "--image-opts", &elsewhere]);
    assert!(!said.contains("Pattern verification failed"), "{said}");
    world.end(&[A_NODE_IS_GONE, &[REFUSED]].concat());
}

/// "Pause, not failure": by DATA PROTECT, 27h/07h. QEMU's initiator takes that for "no space left", at which a machine is paused (`werror=enospc`, its
/// default); ESXi does the same by the code itself.
#[test]
fn at_a_full_pool_hosts_are_told_to_wait_for_room_and_go_on_when_there_is_some() {
    const STEP: u64 = 32 << 20;
    let world = World::with_portals(3, &[]);
    let iqn = offer(&world, "512");
    // Thin: it is larger than the stores.
    world.amita_done(&["volume", "create", "large", "--pool", "demo", "--size", "1G"]);
    let added = world.json(&["lun", "add", "db", "large"]);
    let large = lun(&world, 0, &iqn, ONE).replace("lun=0", &format!("lun={}", added["number"]));
    eventually("the LUN is there", || {
        world
            .tool("qemu-img", &["info", "--image-opts", &large])
            .status
            .success()
    });
    let io = |command: &str| {
        let arguments = ["-d", "unmap", "-c", command, "--image-opts", &large];
        world.tool("qemu-io", &arguments).text
    };
    let write = |at: u64| io(&format!("write -P 0x6e {at} {STEP}"));
    let is_written = |said: &str| said.contains(&format!("wrote {STEP}/{STEP} bytes"));
    let mut steps = (0..1 << 30).step_by(STEP as usize).map(|at| (at, write(at)));
    let (at, said) = steps
        .find(|(_, said)| !is_written(said))
        .expect("1 GiB does not fit stores of 384 MiB");
    assert!(said.contains("No space left on device"), "{said}");
    assert!(at > 0, "{said}");
    // What was acknowledged is there.
    let said = io(&format!("read -P 0x6e 0 {STEP}"));
    assert!(
        said.contains(&format!("read {STEP}/{STEP} bytes")) && !said.contains("verification failed"),
        "{said}"
    );
    // Where there is room, all goes on; nobody has to do anything on the host.
    io(&format!("discard 0 {at}"));
    eventually("there is room again", || is_written(&write(at)));
    world.end(&["space", "full", "pool demo has got over", REFUSED]);
}

#[test]
fn an_initiator_sees_what_it_was_allowed_and_nothing_else() {
    let world = World::with_portals(3, &[]);
    for name in ["second", "third"] {
        world.amita_done(&["volume", "create", name, "--pool", "demo", "--size", "8M"]);
    }
    let made = world.json(&["target", "create", "db"]);
    let iqn = made["iqn"].as_str().expect("a name");
    for (name, number) in [(VOLUME, "0"), ("second", "5"), ("third", "300")] {
        world.amita_done(&["lun", "add", "db", name, "--number", number]);
    }
    world.amita_done(&["target", "create", "far", "--any-initiator", "--gateway", "n3"]);
    world.amita_done(&["initiator", "allow", "db", ONE]);
    world.amita_done(&["initiator", "allow", "db", OTHER, "--lun", "5", "--lun", "300"]);
    // While settings change, a gateway may not have heard yet of what another one tells already, or a LUN be gone between its being told
    // and its being asked: the tool ends with an error then.
    let luns = |initiator: &str| -> Vec<u16> {
        let answer = seen(&world, 0, initiator);
        if !answer.status.success() {
            eprintln!("{initiator} sees: {}", answer.text);
            return Vec::new();
        }
        let said = answer.text;
        // It lists them once for each portal of the target, in any order.
        let portals: Vec<&str> = said.split("Target:").filter(|told| told.starts_with(iqn)).collect();
        let luns_of = |told: &&str| -> Vec<u16> {
            let rows = told.lines().filter_map(|line| line.trim().strip_prefix("Lun:"));
            let fields = rows.filter_map(|row| row.split_whitespace().next()?.parse::<u16>().ok());
            // It shows the field as it is: above 255 with the bits of flat space addressing (SAM-5, 4.7.7.3).
            fields.map(|field| field & 0x3fff).collect()
        };
        let mut told: Vec<Vec<u16>> = portals.iter().map(luns_of).collect();
        let portals = told.len();
        told.dedup();
        if portals == 3 && told.len() == 1 {
            return told.remove(0);
        }
        eprintln!("{initiator} sees: {said}");
        Vec::new()
    };
    eventually("both see theirs", || {
        luns(ONE) == [0, 5, 300] && luns(OTHER) == [5, 300]
    });
    // Each portal of the target is told, with the tag of its gateway's group; a target of another gateway by that one's alone.
    let said = seen(&world, 1, ONE).text;
    for node in 0..3 {
        let told = format!("Target:{iqn} Portal:{},", portal(&world, node));
        assert!(said.contains(&told), "{told}: {said}");
    }
    assert!(
        said.matches(":far").count() == 1 && said.contains(&format!("Portal:{},", portal(&world, 2))),
        "{said}"
    );
    let nobody = "iqn.1993-08.org.debian:01:nobody";
    let said = seen(&world, 0, nobody).text;
    assert!(
        !said.contains(iqn),
        "a name that is not allowed is told of nothing: {said}"
    );
    let refused = |what: &str, lun: &str| {
        let answer = world.tool("qemu-img", &["info", "--image-opts", lun]);
        assert!(!answer.status.success(), "{what}: {}", answer.text);
        answer.text
    };
    refused("not allowed", &lun(&world, 0, iqn, nobody));
    refused("masked", &lun(&world, 0, iqn, OTHER));
    refused("no such target", &lun(&world, 0, "iqn.2026-01.com.example:none", ONE));
    refused("not here", &lun(&world, 0, &iqn.replace(":db", ":far"), ONE));

    // What is taken away is gone for who is there, too.
    world.amita_done(&["initiator", "allow", "db", OTHER, "--lun", "300"]);
    eventually("it sees one less", || luns(OTHER) == [300]);
    let volume = lun(&world, 0, iqn, ONE);
    let load = ["bench", "-c", "100000000", "-s", "4096", "--image-opts", &volume];
    let bench = tool::start(world.folder(), "qemu-img", load).expect("it starts");
    eventually("it is logged in", || sessions(&world) > 0);
    world.amita_done(&["initiator", "deny", "db", ONE]);
    eventually("it is not let in again", || {
        !world
            .tool("qemu-img", &["info", "--image-opts", &volume])
            .status
            .success()
    });
    eventually("it is cut off", || sessions(&world) == 0);
    drop(bench);
    world.end(&[REFUSED]);
}

/// How many sessions hosts have with the first node's portal, as the kernel sees their connections.
fn sessions(world: &World) -> usize {
    let portal = portal(world, 0);
    let text = std::fs::read_to_string("/proc/net/tcp").expect("the kernel's list");
    let SocketAddr::V4(portal) = portal else {
        panic!("portals of tests have addresses of version 4")
    };
    let mut place = String::new();
    let address = u32::from_ne_bytes(portal.ip().octets());
    write!(place, "{address:08X}:{:04X}", portal.port()).expect("memory");
    let established = text.lines().skip(1).filter(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        columns.get(1) == Some(&place.as_str()) && columns.get(3) == Some(&"01")
    });
    established.count()
}

#[test]
fn chap_lets_in_who_has_the_secret_and_nobody_else() {
    let keys = tempfile::tempdir().expect("a folder");
    let seal = keys.path().join("seal.key").display().to_string();
    tool::run(keys.path(), binary(), ["host", "seal-key", &seal], PATIENCE)
        .and_then(Output::success)
        .expect("a sealing key");
    let world = World::with_portals(2, &["--seal-key", &seal]);
    let made = world.json(&["target", "create", "db", "--require-chap"]);
    let iqn = made["iqn"].as_str().expect("a name");
    world.amita_done(&["lun", "add", "db", VOLUME]);
    let secret_of = |initiator: &str| -> String {
        let said = world.amita_done(&["initiator", "key", initiator, "--generate-chap", "--seal-key", &seal]);
        let line = said.lines().find(|line| line.trim_start().starts_with("chap-secret"));
        let secret = line.and_then(|line| line.split_whitespace().nth(1));
        let path = world.file(&format!("{}.secret", initiator.replace(':', "-")));
        std::fs::write(&path, secret.expect("a secret")).expect("written");
        path.display().to_string()
    };
    let (one, other) = (secret_of(ONE), secret_of(OTHER));
    let unsecured = "iqn.1993-08.org.debian:01:unsecured";
    for initiator in [ONE, OTHER, unsecured] {
        world.amita_done(&["initiator", "allow", "db", initiator]);
    }
    let try_as = |node: usize, initiator: &str, user: &str, secret: &str| -> Output {
        let object = format!("secret,id=chap,file={secret}");
        let lun = lun(&world, node, iqn, initiator);
        let lun = format!("{lun},user={user},password-secret=chap");
        world.tool("qemu-img", &["info", "--object", &object, "--image-opts", &lun])
    };
    for node in 0..2 {
        eventually("it is let in", || try_as(node, ONE, ONE, &one).status.success());
        eventually("so is the other one", || {
            try_as(node, OTHER, OTHER, &other).status.success()
        });
        for (what, initiator, user, secret) in [
            ("the other's secret", ONE, ONE, &other),
            ("the other's name and secret", ONE, OTHER, &other),
            ("a name that is not its own", ONE, "somebody", &one),
            ("no secret of its own", unsecured, ONE, &one),
        ] {
            let refused = try_as(node, initiator, user, secret);
            assert!(!refused.status.success(), "{what}: {}", refused.text);
            assert!(refused.text.contains("log in"), "{what}: {}", refused.text);
        }
        for initiator in [ONE, unsecured] {
            let lun = lun(&world, node, iqn, initiator);
            let refused = world.tool("qemu-img", &["info", "--image-opts", &lun]);
            assert!(!refused.status.success(), "without CHAP: {}", refused.text);
        }
    }
    // A new secret counts from then on, and the old one no more.
    let old = world.file("old").display().to_string();
    std::fs::copy(&one, &old).expect("copied");
    let new = secret_of(ONE);
    eventually("the new one is known", || try_as(0, ONE, ONE, &new).status.success());
    assert!(!try_as(0, ONE, ONE, &old).status.success(), "the old one is");
    // It may give another name, by which it is known from then on.
    world.amita_done(&["initiator", "key", ONE, "--chap-user", "esx-1"]);
    eventually("by its other name", || try_as(1, ONE, "esx-1", &new).status.success());
    assert!(
        !try_as(1, ONE, ONE, &new).status.success(),
        "its first name is another one's"
    );
    world.end(&[REFUSED]);
}

/// Every gateway, and a client that stops: what nobody serves is told, and is over when somebody does.
#[test]
fn portals_are_told_of_and_a_target_that_nobody_serves_is() {
    let mut world = World::with_portals(3, &[]);
    let iqn = offer(&world, "512");
    let nodes = world.json(&["node", "list"]);
    for (index, node) in world.cluster.nodes().iter().enumerate() {
        let portal = node.iscsi.expect("a portal").to_string();
        assert_eq!(nodes[index]["iscsi"], serde_json::json!([portal]), "{nodes}");
    }
    let told = world.amita_done(&["status"]);
    assert!(
        told.contains("3 of 3 gateways alive, 1 targets, 1 LUNs, 0 initiators"),
        "{told}"
    );
    await_login(&world, 0, &iqn, ONE);
    world.amita_done(&["target", "set", "db", "--gateway", "n3"]);
    let lun = lun(&world, 0, &iqn, ONE);
    eventually("it is served there no more", || {
        !world.tool("qemu-img", &["info", "--image-opts", &lun]).status.success()
    });
    let unserved = |world: &World| {
        world
            .amita_done(&["status"])
            .contains("Target db: no node that lives serves it")
    };
    assert!(!unserved(&world));
    world.cluster.kill_node(2);
    eventually("nobody serves it", || unserved(&world));
    world.amita_done(&["target", "set", "db", "--all-gateways"]);
    eventually("others do", || !unserved(&world));
    await_login(&world, 0, &iqn, ONE);
    world.end(&[A_NODE_IS_GONE, &[REFUSED]].concat());
}
