//! What people and the network get wrong: each is answered with a message that says what, where and what to do, and
//! nothing else is harmed.

use crate::images::amita as copying;
use crate::world::{
    A_NODE_IS_GONE, A_NODE_RETURNS, PATIENCE, VOLUME, VOLUME_BYTES, World, pattern, stamped, unexpected_in,
};
use amita_harness::nbd::Client;
use amita_harness::process::Process;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::time::Duration;

/// Waits for a process that must give up, and returns what it said.
fn gives_up(mut process: Process) -> String {
    let status = process.wait(PATIENCE).expect("it gives up");
    let said = std::fs::read_to_string(process.log()).expect("a log");
    assert!(!status.success(), "it ended as if nothing were wrong:\n{said}");
    assert_ne!(status.code(), None, "it was killed by a signal:\n{said}");
    assert!(!said.contains("panicked"), "it panicked:\n{said}");
    said
}

/// What holds data is refused where others can read it, before anything else is said of it.
fn owners_alone(path: &std::path::Path) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).expect("its rights");
}

fn says(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(
            said.to_lowercase().contains(&part.to_lowercase()),
            "{part:?} is not in:\n{said}"
        );
    }
}

#[test]
fn an_occupied_port_is_named() {
    let world = World::metadata_only(1);
    world.cluster.format_store(0).expect("formatted");
    let store = world.cluster.nodes()[0].stores[0].display().to_string();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("its address").to_string();
    let (fabric, nbd) = (
        world.cluster.nodes()[0].fabric.to_string(),
        world.cluster.nodes()[0].nbd.to_string(),
    );
    let said = gives_up(world.serve("a", &["--store", &store, "--fabric", &fabric, "--nbd", &address]));
    says(&said, &[&address, "in use"]);
    let said = gives_up(world.serve("a", &["--store", &store, "--fabric", &address, "--nbd", &nbd]));
    says(&said, &[&address, "in use"]);
    // The metadata server too.
    let meta = amita_harness::tool::start(
        world.folder(),
        crate::world::binary(),
        [
            "meta",
            "--listen",
            &address,
            "--data",
            &world.file("other.redb").display().to_string(),
        ],
    );
    says(&gives_up(meta.expect("it starts")), &[&address, "in use"]);
    world.end(&[]);
}

#[test]
fn a_path_that_is_no_store_is_named_and_left_as_it_is() {
    let world = World::metadata_only(1);
    let (fabric, nbd) = (
        world.cluster.nodes()[0].fabric.to_string(),
        world.cluster.nodes()[0].nbd.to_string(),
    );
    let file = world.file("letters");
    std::fs::write(&file, pattern(1, 64 << 20)).expect("written");
    owners_alone(&file);
    let path = file.display().to_string();
    let said = gives_up(world.serve("a", &["--store", &path, "--fabric", &fabric, "--nbd", &nbd]));
    says(&said, &[&path, "no store", "disk format"]);
    assert!(
        std::fs::read(&file).expect("read") == pattern(1, 64 << 20),
        "the file was changed"
    );
    let missing = world.file("missing").display().to_string();
    let said = gives_up(world.serve("a", &["--store", &missing, "--fabric", &fabric, "--nbd", &nbd]));
    says(&said, &[&missing, "no such file"]);
    // To format it takes a word more.
    let refused = world.amita(&["disk", "format", &path]);
    assert_eq!(refused.status.code(), Some(5), "{}", refused.text);
    says(&refused.text, &[&path, "not empty", "--force"]);
    assert!(
        std::fs::read(&file).expect("read") == pattern(1, 64 << 20),
        "the file was changed"
    );
    world.end(&[]);
}

#[test]
fn a_store_of_another_cluster_is_refused_and_goes_on_in_its_own() {
    let mut world = World::with_volume();
    let other = World::metadata_only(1);
    let mut client = world.open(0);
    client.write(0, &stamped(0, 1)).expect("written");
    client.close();
    // While its node serves it, nobody else may even open it.
    let path = world.cluster.nodes()[2].stores[0].display().to_string();
    let (fabric, nbd) = (
        other.cluster.nodes()[0].fabric.to_string(),
        other.cluster.nodes()[0].nbd.to_string(),
    );
    let arguments = ["--store", &path, "--fabric", &fabric, "--nbd", &nbd];
    says(&gives_up(other.serve("a", &arguments)), &[&path, "in use"]);
    assert!(world.cluster.stop_node(2), "the node ends in order");
    says(&gives_up(other.serve("a", &arguments)), &[&path, "belongs to cluster"]);
    world.cluster.start_node(2).expect("it starts again");
    world.cluster.await_node(2).expect("its own cluster still takes it");
    other.end(&[]);
    world.end(&[A_NODE_IS_GONE, A_NODE_RETURNS].concat());
}

#[test]
fn a_damaged_superblock_is_survived_and_two_are_refused() {
    let mut world = World::metadata_only(1);
    world.cluster.format_store(0).expect("formatted");
    let path = world.cluster.nodes()[0].stores[0].clone();
    let file = std::fs::File::options().write(true).open(&path).expect("the store");
    file.write_all_at(&pattern(1, 512), 100)
        .expect("the first superblock is damaged");
    world.cluster.start_node(0).expect("it starts");
    world.cluster.await_node(0).expect("it serves by the second superblock");
    assert!(world.cluster.stop_node(0), "it ends in order");
    for offset in [100, (32 << 10) + 100] {
        file.write_all_at(&pattern(2, 512), offset).expect("both are damaged");
    }
    let before = std::fs::read(&path).expect("read");
    let path = path.display().to_string();
    let listed = world.json(&["disk", "list", &path]);
    says(listed[0]["state"].as_str().expect("a state"), &["damaged"]);
    let (fabric, nbd) = (
        world.cluster.nodes()[0].fabric.to_string(),
        world.cluster.nodes()[0].nbd.to_string(),
    );
    let said = gives_up(world.serve("n1", &["--store", &path, "--fabric", &fabric, "--nbd", &nbd]));
    says(&said, &[&path, "superblock", "damaged"]);
    assert!(
        std::fs::read(&path).expect("read") == before,
        "a store that was refused was changed"
    );
    world.end(&["superblock"]);
}

#[test]
fn a_disk_without_room_is_refused_before_it_is_written() {
    let world = World::metadata_only(1);
    let path = world.file("huge").display().to_string();
    let refused = world.amita(&["disk", "format", "--size", "4P", &path]);
    assert_eq!(refused.status.code(), Some(1), "{}", refused.text);
    says(&refused.text, &[&path]);
    let refused = world.amita(&["disk", "format", "--size", "512T", &path]);
    says(&refused.text, &[&path]);
    let refused = world.amita(&["disk", "format", "--size", "64K", &path]);
    says(&refused.text, &[&path, "too small"]);
    assert!(!world.file("huge").exists(), "half a store was left behind");
    world.end(&[]);
}

#[test]
fn a_full_store_refuses_writes_and_serves_everything_else() {
    let world = World::with_volume();
    // Thin: the second volume is larger than the stores.
    world.amita_done(&["volume", "create", "large", "--pool", "demo", "--size", "1G"]);
    world.cluster.offer_by_nbd("large").expect("it is exported");
    let mut other = world.open(0);
    other.write(0, &stamped(0, 1)).expect("written");
    let mut client = Client::open(world.cluster.nodes()[0].nbd, "large", PATIENCE).expect("opens");
    let step = 1 << 20;
    let mut written = 0u64;
    let refused = loop {
        assert!(written < 1 << 30, "stores of 384 MiB took 1 GiB");
        match client.write(written, &pattern(written, step)) {
            Ok(()) => written += step as u64,
            Err(error) => break error,
        }
    };
    assert_eq!(
        refused.raw_os_error(),
        Some(28),
        "ENOSPC is what a full disk says, not {refused}"
    );
    assert!(written > 64 << 20, "full after {written} bytes");
    // All that was acknowledged is there, also on the other volume.
    for offset in (0..written).step_by(16 << 20) {
        let mut read = vec![0; step];
        client.read(offset, &mut read).expect("read");
        assert!(
            read == pattern(offset, step),
            "what was acknowledged at {offset} is gone"
        );
    }
    let mut read = vec![0; 4096];
    other.read(0, &mut read).expect("read");
    assert!(read == stamped(0, 1));
    client.close();
    other.close();
    world.end(&["space", "full", "pool demo has got over"]);
}

#[test]
fn a_volume_that_does_not_exist_and_a_size_of_no_blocks_are_said() {
    let world = World::with_volume();
    let missing = world.uri(0).replace(VOLUME, "nothing");
    let refused = world.tool("nbdinfo", &[&missing]);
    assert!(!refused.status.success());
    let refused = world.amita(&["volume", "delete", "nothing"]);
    assert_eq!(refused.status.code(), Some(4), "{}", refused.text);
    says(&refused.text, &["nothing"]);
    let refused = world.amita(&["volume", "create", "odd", "--pool", "demo", "--size", "10000"]);
    assert_eq!(refused.status.code(), Some(2), "{}", refused.text);
    says(&refused.text, &["multiple", "8192", "12288"]);
    let refused = world.amita(&["volume", "create", "v", "--pool", "nothing", "--size", "1M"]);
    assert_eq!(refused.status.code(), Some(4), "{}", refused.text);
    let refused = world.amita(&["volume", "create", VOLUME, "--pool", "demo", "--size", "1M"]);
    assert_eq!(refused.status.code(), Some(5), "{}", refused.text);
    // The volume that exists goes on as if nothing had been asked.
    assert_eq!(world.open(0).size_bytes(), VOLUME_BYTES);
    world.end(&[]);
}

#[test]
fn what_is_no_protocol_harms_nobody_else() {
    let world = World::with_volume();
    let (nbd, fabric) = (world.cluster.nodes()[0].nbd, world.cluster.nodes()[0].fabric);
    let mut client = world.open(0);
    // Half-open connections, garbage, a cut in the middle of the handshake: to the clients' port and to the nodes'.
    let idle: Vec<TcpStream> = (0..200)
        .map(|_| TcpStream::connect(nbd).expect("a connection"))
        .collect();
    for seed in 0..20 {
        for address in [nbd, fabric] {
            let mut stream = TcpStream::connect(address).expect("a connection");
            // The other end may have had enough before all of it is sent.
            let _ = stream.write_all(&pattern(seed, 100 + seed as usize * 1000));
        }
    }
    let mut drops = 0;
    for round in 0..50 {
        while let Err(why) = client.write(0, &stamped(0, round)) {
            // A core that did not run for a second, where a machine is busy, drops all of its hosts by itself (R9).
            drops += 1;
            let log = std::fs::read_to_string(world.cluster.node_log(0)).expect("its log");
            assert!(log.matches("did not run for").count() >= drops, "not written: {why}");
            client = world.open(0);
        }
    }
    let mut read = vec![0; 4096];
    client.read(0, &mut read).expect("read");
    assert!(read == stamped(0, 49));
    drop(idle);
    client.close();
    std::thread::sleep(Duration::from_millis(200));
    let errors: Vec<String> = (0..3)
        .flat_map(|node| unexpected_in(&world.cluster.node_log(node), &[]))
        .filter(|line| line.contains("ERROR") || line.contains("panic"))
        .collect();
    assert!(
        errors.is_empty(),
        "garbage is nothing that a person must look at:\n{}",
        errors.join("\n")
    );
    world.end(&["WARN"]);
}

const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:01234567-89ab-cdef-0123-456789abcdef";
/// What nobody has: no pool, volume, snapshot or policy is called so.
const NOBODY: &str = "nobody";

/// Commands of a volume's life that cannot be done, by the code that they end with; and what the message has to say.
const REFUSED: &[(i32, &str, &[&str])] = &[
    // Names.
    (
        2,
        "volume create a/b --pool demo --size 8M",
        &["a/b", "letters, digits"],
    ),
    (2, "volume create .5 --pool demo --size 8M", &[".5", "starts with"]),
    (
        4,
        "volume create x --pool nobody --size 8M",
        &["no pool named nobody", "there is demo"],
    ),
    (
        5,
        "volume create other --pool demo --size 8M",
        &["other exists already"],
    ),
    (4, "volume show nobody", &["no volume", "nobody"]),
    (4, "volume show .3", &[".3"]),
    (4, "volume rename nobody x", &["no volume named nobody"]),
    (5, "volume rename other child", &["child exists already"]),
    (2, "volume rename other a/b", &["a/b"]),
    (2, "volume rename other .7", &[".7"]),
    (4, "volume label nobody a=b", &["no volume named nobody"]),
    (2, "volume label other =b", &["KEY=VALUE"]),
    (4, "volume resize nobody --size 8M", &["no volume named nobody"]),
    (4, "volume protect nobody", &["no volume named nobody"]),
    (4, "volume delete nobody", &["no volume named nobody"]),
    (4, "volume delete .3", &["no volume named .3"]),
    (
        4,
        "volume undelete nobody",
        &["no deleted volume named nobody", "there is bin"],
    ),
    (5, "volume undelete bin --as other", &["other exists already"]),
    (2, "volume undelete bin --as a/b", &["a/b"]),
    (4, "volume purge nobody", &["no deleted volume named nobody"]),
    (4, "volume purge other", &["no deleted volume named other"]),
    (2, "volume clone other x", &["VOLUME@SNAPSHOT"]),
    (
        4,
        "volume clone other@nobody x",
        &["no snapshot named other@nobody", "s1", "kept"],
    ),
    (4, "volume clone nobody@s1 x", &["no volume named nobody"]),
    (5, "volume clone other@s1 child", &["child exists already"]),
    (2, "volume clone other@s1 a/b", &["a/b"]),
    (4, "volume snapshot create nobody s", &["no volume named nobody"]),
    (5, "volume snapshot create other s1", &["other@s1 exists already"]),
    (2, "volume snapshot create other a/b", &["a/b", "128 letters"]),
    (
        2,
        "volume snapshot create other s2 --label amita:policy=p/1",
        &["only Amita itself"],
    ),
    (4, "volume snapshot list nobody", &["no volume named nobody"]),
    (
        4,
        "volume snapshot delete other nobody",
        &["no snapshot named other@nobody"],
    ),
    (
        4,
        "volume snapshot protect other nobody",
        &["no snapshot named other@nobody"],
    ),
    (4, "volume attach nobody --host HOST", &["no volume named nobody"]),
    (
        4,
        "volume attach other@nobody --host HOST",
        &["no snapshot named other@nobody"],
    ),
    (2, "volume attach other --host nonsense", &["nqn."]),
    (4, "volume detach other", &["no namespace"]),
    // Sizes and times.
    (2, "volume create x --pool demo --size 0", &["zero"]),
    (2, "volume create x --pool demo --size 10001", &["8192", "12288"]),
    (2, "volume create x --pool demo --size 100P", &["72057594037927936"]),
    (2, "volume resize other --size 4M", &["8388608", "--shrink"]),
    (2, "volume resize other --size 10001", &["8192", "12288"]),
    (2, "volume attach other --host HOST --block-size 1000", &["512 or 4096"]),
    (2, "volume delete other --keep 4000d", &["3660 are the most"]),
    (2, "volume delete other --keep soon", &["no age"]),
    (2, "pool recycle demo --keep 4000d", &["3660 are the most"]),
    (2, "pool thresholds --near-full 96", &["near full below full"]),
    (2, "pool thresholds --pools 90,80,95", &["each above the one before"]),
    (2, "pool thresholds --pools 2,80,95", &["3 to 100"]),
    // States.
    (
        5,
        "volume delete safe",
        &["protected", "amita volume protect safe --off"],
    ),
    (5, "volume delete safe --now --force", &["protected"]),
    (5, "volume delete other --now", &["2 snapshots", "--snapshots"]),
    (5, "volume snapshot delete other kept", &["protected", "--off"]),
    // Policies and quotas.
    (
        4,
        "snapshot-policy create q --volume nobody --schedule @daily --keep-last 1",
        &["no volume named nobody"],
    ),
    (
        4,
        "snapshot-policy create q --pool nobody --schedule @daily --keep-last 1",
        &["no pool named nobody"],
    ),
    (
        2,
        "snapshot-policy create q --volume other --schedule @daily",
        &["would keep nothing"],
    ),
    (
        5,
        "snapshot-policy create p --volume other --schedule @daily --keep-last 1",
        &["p exists already"],
    ),
    (
        2,
        "snapshot-policy create a/b --volume other --schedule @daily --keep-last 1",
        &["a/b"],
    ),
    (
        2,
        "snapshot-policy create q --schedule @daily --keep-last 1",
        &["--volume", "--label", "--pool"],
    ),
    (
        2,
        "snapshot-policy create q --volume other --schedule never --keep-last 1",
        &["five fields"],
    ),
    (
        2,
        "snapshot-policy create q --volume other --schedule @daily --keep-last 99999",
        &["16384"],
    ),
    (
        2,
        "snapshot-policy create q --volume other --schedule @daily --keep-last 1 --zone Mars",
        &["Mars"],
    ),
    (
        2,
        "snapshot-policy create q --volume other --schedule @daily --keep-last 1 --template x",
        &["{time}"],
    ),
    (
        4,
        "snapshot-policy set nobody --pause",
        &["no snapshot policy named nobody", "there is p"],
    ),
    (2, "snapshot-policy set p", &["nothing is to be changed"]),
    (2, "snapshot-policy set p --keep-last 0", &["would keep nothing"]),
    (2, "snapshot-policy set p --pause --resume", &["cannot be used with"]),
    (4, "snapshot-policy show nobody", &["nobody"]),
    (4, "snapshot-policy prune nobody", &["nobody"]),
    (4, "snapshot-policy delete nobody", &["nobody"]),
    // Backups by policies.
    (
        2,
        "backup repository add x --address backup --key-file /k",
        &["neither a folder", "s3://BUCKET/PREFIX"],
    ),
    (
        2,
        "backup repository add x --address /b --key-file k",
        &["whole path at the nodes"],
    ),
    (
        2,
        "backup repository add x --address s3://b/p --key-file /k",
        &["--s3-credentials"],
    ),
    (
        4,
        "backup repository add x --address /b --key-file /k --node nobody",
        &["no node named nobody"],
    ),
    (
        5,
        "backup repository add far --address /b --key-file /k",
        &["far exists already"],
    ),
    (2, "backup repository set far", &["nothing is to be changed"]),
    (
        4,
        "backup repository set nobody --any-node",
        &["nobody", "there is far"],
    ),
    (4, "backup repository remove nobody", &["nobody"]),
    (5, "backup repository remove far", &["not forgotten", "(b)"]),
    (
        4,
        "backup policy create q --volume other --to nobody --schedule @daily --keep-last 1",
        &["no backup repository named nobody"],
    ),
    (
        4,
        "backup policy create q --volume nobody --to far --schedule @daily --keep-last 1",
        &["no volume named nobody"],
    ),
    (
        2,
        "backup policy create q --to far --schedule @daily --keep-last 1",
        &["which volumes"],
    ),
    (
        2,
        "backup policy create q --volume other --to far --schedule @daily",
        &["would keep nothing"],
    ),
    (
        2,
        "backup policy create q --volume other --to far --schedule never --keep-last 1",
        &["five fields are wanted"],
    ),
    (
        2,
        "backup policy create q --volume other --to far --schedule @daily --keep-last 1 --time-limit 1",
        &["time limit of 1 s"],
    ),
    (
        5,
        "backup policy create b --volume other --to far --schedule @daily --keep-last 1",
        &["b exists already"],
    ),
    (2, "backup policy set b", &["nothing is to be changed"]),
    (2, "backup policy set b --keep-last 0", &["would keep nothing"]),
    (4, "backup policy set nobody --pause", &["nobody", "there is b"]),
    (4, "backup policy show nobody", &["nobody"]),
    (4, "backup policy delete nobody", &["nobody"]),
    (4, "backup task back-up t nobody --to far", &["nobody"]),
    (
        4,
        "backup task back-up t other --to nowhere",
        &["nowhere", "there is far"],
    ),
    (4, "backup task back-up t other@never --to far", &["never"]),
    (
        2,
        "backup task back-up t other --to far --time-limit 1",
        &["time limit of 1 s"],
    ),
    (
        5,
        "backup task restore t 3 --from far --to other --pool demo",
        &["other exists already"],
    ),
    (
        4,
        "backup task restore t 3 --from far --to new --pool nowhere",
        &["nowhere"],
    ),
    (2, "backup task forget t 0 --from far", &["from 1 on"]),
    (4, "backup task show nobody", &["nobody", "backup task back-up"]),
    (4, "backup task cancel nobody", &["nobody"]),
    (4, "backup task remove nobody", &["nobody"]),
    (4, "pool quota nobody --volumes 1", &["no pool named nobody"]),
    (2, "pool quota demo --volumes x", &["invalid"]),
    (4, "pool recycle nobody", &["no pool named nobody"]),
    (4, "pool show nobody", &["nobody"]),
];

/// The same of those that read and write data.
const REFUSED_COPIES: &[(i32, &str, &[&str])] = &[
    (4, "volume revert other@nobody", &["no snapshot named other@nobody"]),
    (4, "volume revert nobody@s1", &["no volume named nobody"]),
    (5, "volume revert bin@s1", &["recycle bin", "amita volume undelete bin"]),
    (4, "volume diff other@nobody", &["no snapshot nobody", "s1, kept"]),
    (2, "volume diff other@kept s1", &["newer", "older one first"]),
    (4, "volume diff nobody@s1", &["no volume named nobody"]),
    (1, "volume import /nowhere x --pool demo", &["/nowhere"]),
    (2, "volume import - x --pool demo", &["--size"]),
    (5, "volume import /etc/hostname other --pool demo", &["other"]),
    (
        4,
        "volume import /etc/hostname x --pool nobody",
        &["no pool named nobody"],
    ),
    (2, "volume import /etc/hostname a/b --pool demo", &["a/b"]),
    (
        2,
        "volume import /etc/hostname nobody --force",
        &["no volume", "--pool"],
    ),
    (
        4,
        "volume import /etc/hostname nobody --resume",
        &["no import to go on with"],
    ),
    (
        2,
        "volume import /etc/hostname x --pool demo --format qcow2",
        &["no qcow2"],
    ),
    (4, "volume export nobody FOLDER/out", &["nobody"]),
    (4, "volume export other@nobody FOLDER/out", &["other@nobody"]),
    (1, "volume export other FOLDER/none/out", &["FOLDER/none/out"]),
];

/// What there would be too much of, in a pool that has what it may have.
const OVER_QUOTA: &[&str] = &[
    "volume create x --pool demo --size 8M",
    "volume clone other@s1 x",
    "volume undelete bin",
    "volume resize other --size 16M",
    "volume snapshot create other more",
];

/// What a volume's life has left behind, but for what is counted and what a policy's coordinator notes.
fn all_there_is(world: &World) -> Vec<serde_json::Value> {
    let lists: [&[&str]; 9] = [
        &["volume", "list"],
        &["volume", "list", "--deleted"],
        &["volume", "snapshot", "list", "other"],
        &["snapshot-policy", "list"],
        &["backup", "repository", "list"],
        &["backup", "policy", "list"],
        &["subsystem", "list"],
        &["host", "list"],
        &["pool", "thresholds"],
    ];
    let each = lists.into_iter().map(|list| {
        let mut found = world.json(list);
        for one in found.as_array_mut().into_iter().flatten() {
            for counted in [
                "used_bytes",
                "unique_bytes",
                "runs",
                "next_at",
                "owner",
                "owner_name",
                "owner_alive",
                "generation",
            ] {
                one.as_object_mut().expect("records").remove(counted);
            }
        }
        found
    });
    each.collect()
}

fn refused(command: &str, code: i32, parts: &[&str], said: &amita_harness::tool::Output) {
    assert_eq!(said.status.code(), Some(code), "{command}: {}", said.text);
    for part in parts {
        assert!(said.text.contains(part), "{command}: {part:?} is not in: {}", said.text);
    }
}

#[test]
fn the_life_of_a_volume_refuses_what_cannot_be_and_does_nothing_by_halves() {
    let mut world = World::with_volume();
    for done in [
        "volume create other --pool demo --size 8M",
        "volume snapshot create other s1",
        "volume snapshot create other kept",
        "volume snapshot protect other kept",
        "volume clone other@s1 child",
        "volume create bin --pool demo --size 8M",
        "volume delete bin",
        "volume create safe --pool demo --size 8M",
        "volume protect safe",
        "snapshot-policy create p --volume other --schedule @yearly --keep-last 3",
        "backup repository add far --address /backup --key-file /no/such/key",
        "backup policy create b --volume other --to far --schedule @yearly --keep-last 3",
    ] {
        world.amita_done(&done.split(' ').collect::<Vec<_>>());
    }
    let before = all_there_is(&world);
    assert!(!before.iter().any(|list| list.to_string().contains(NOBODY)));
    let folder = world.folder().display().to_string();
    for (code, command, parts) in REFUSED {
        let arguments: Vec<&str> = command
            .split(' ')
            .map(|word| if word == "HOST" { HOST } else { word })
            .collect();
        refused(command, *code, parts, &world.amita(&arguments));
    }
    for (code, command, parts) in REFUSED_COPIES {
        let command = command.replace("FOLDER", &folder);
        let parts: Vec<String> = parts.iter().map(|part| part.replace("FOLDER", &folder)).collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        refused(
            &command,
            *code,
            &parts,
            &copying(&world, &command.split(' ').collect::<Vec<_>>()),
        );
    }
    assert!(!world.file("out").exists(), "half an image was left behind");
    assert_eq!(all_there_is(&world), before);

    let sizes = (VOLUME_BYTES + (24 << 20)).to_string();
    let quota = [
        "pool",
        "quota",
        "demo",
        "--provisioned",
        &sizes,
        "--volumes",
        "4",
        "--snapshots",
        "2",
    ];
    world.amita_done(&quota);
    for command in OVER_QUOTA {
        let said = world.amita(&command.split(' ').collect::<Vec<_>>());
        refused(
            command,
            5,
            &["the quota of pool demo has no room", "amita pool quota demo --"],
            &said,
        );
    }
    assert_eq!(all_there_is(&world), before);
    world.amita_done(&["pool", "quota", "demo", "--none"]);

    // Without the metadata nothing is done, and all say where it was looked for.
    world.cluster.kill_metadata();
    let endpoint = world.cluster.endpoint().trim_start_matches("https://").to_owned();
    for command in [
        "volume create x --pool demo --size 8M",
        "volume list",
        "volume list --deleted",
        "volume show other",
        "volume rename other x",
        "volume label other a=b",
        "volume resize other --size 16M",
        "volume protect other",
        "volume delete other",
        "volume undelete bin",
        "volume purge bin",
        "volume clone other@s1 x",
        "volume snapshot create other s2",
        "volume snapshot list other",
        "volume snapshot protect other s1",
        "volume snapshot delete other s1",
        "snapshot-policy list",
        "snapshot-policy set p --pause",
        "snapshot-policy delete p",
        "backup repository list",
        "backup policy set b --pause",
        "backup policy delete b",
        "pool quota demo --volumes 1",
        "pool recycle demo --keep 1d",
    ] {
        refused(
            command,
            3,
            &[&endpoint],
            &world.amita(&command.split(' ').collect::<Vec<_>>()),
        );
    }
    world.cluster.start_metadata().expect("it starts");
    assert_eq!(all_there_is(&world), before);
    world.end(&["metadata", "lease", "watch"]);
}
