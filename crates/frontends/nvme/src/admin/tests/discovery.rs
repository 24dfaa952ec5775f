use super::layout::{discovery_entry, discovery_header};
use super::logs::log;
use super::*;

const OTHER_HOST: &str = "nqn.2026-01.io.other:host";

/// A subsystem for the host, at gateways 1 and 2; one for others; one for all at gateway 2; one that needs TLS, at 1.
fn several() -> Catalog {
    let named = |name: &str, gateways: &[u32]| subsystem(&format!("nqn.2026-01.io.amita:{name}"), gateways, Vec::new());
    let mut foreign = named("foreign", &[1, 2]);
    foreign.hosts = vec![access(OTHER_HOST, false)];
    let mut open = named("open", &[2, 3]);
    open.any_host = true;
    open.hosts = Vec::new();
    let mut secret = named("secret", &[1]);
    secret.hosts = vec![access(HOST, true)];
    catalog_of(vec![foreign, named("mine", &[1, 2, 3]), open, secret])
}

fn connected(host: &str, catalog: &Catalog) -> Admin {
    connected_as(host, true, catalog)
}

fn connected_as(host: &str, proven: bool, catalog: &Catalog) -> Admin {
    let session = Session {
        host: host.into(),
        proven,
        kato_ms: 120_000,
        ..session(Kind::Discovery)
    };
    ready_with(session, &Arc::new(catalog.clone()))
}

/// A name is told to whoever only claims to be the host where it would be served too, and nowhere else; a subsystem that takes TLS only,
/// to those that have a key for it.
#[test]
fn who_proves_nothing_is_told_nothing_of_what_is_guarded() {
    let named = |host: &str, proven, catalog: &Catalog| {
        let (_, entries) = read(&mut connected_as(host, proven, catalog));
        let mut names: Vec<String> = entries.iter().map(|entry| summary(entry).1).collect();
        names.dedup();
        names.retain(|name| name.contains("amita:") && !name.ends_with(":discovery"));
        names
            .iter()
            .map(|name| name.rsplit(':').next().unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
    };
    let mut catalog = several();
    assert_eq!(named(HOST, true, &catalog), ["mine", "open", "secret"]);
    assert_eq!(named(HOST, false, &catalog), ["mine", "open"]);
    for subsystem in &mut catalog.subsystems {
        Arc::make_mut(subsystem).tls_required = true;
    }
    assert_eq!(named(HOST, true, &catalog), ["secret"], "it has a key for no other");
    assert_eq!(named(HOST, false, &catalog), [""; 0]);
}

/// Reads the log as nvme-cli does: the header for the number of records, then all of it in parts, then the header again.
fn read(admin: &mut Admin) -> (u64, Vec<Vec<u8>>) {
    let header = data(admin, &retained(log(0x70, 0, 1024, 0)));
    let layout = discovery_header();
    let records = layout.get(&header, "numrec") as usize;
    let mut page = Vec::new();
    while page.len() < 1024 * (1 + records) {
        let part = 4096.min(1024 * (1 + records) - page.len());
        page.extend(data(admin, &retained(log(0x70, 0, part, page.len() as u64))));
    }
    assert_eq!(
        data(admin, &log(0x70, 0, 1024, 0)),
        header,
        "it has not changed meanwhile"
    );
    assert_eq!(page[..1024], header);
    assert_eq!(layout.get(&header, "recfmt"), 0);
    (
        layout.get(&header, "genctr") as u64,
        page[1024..].chunks(1024).map(<[u8]>::to_vec).collect(),
    )
}

fn retained(mut command: Command) -> Command {
    command.0[41] |= 0x80;
    command
}

/// Subtype, name, address, port, must it be TLS?
fn summary(entry: &[u8]) -> (u128, String, String, String, bool) {
    let layout = discovery_entry();
    let text = |name| String::from_utf8(layout.bytes(entry, name).to_vec()).unwrap();
    let tls = layout.get(entry, "treq") & 3 == 1;
    assert_eq!(layout.get(entry, "sectype"), if tls { 2 } else { 0 });
    (
        layout.get(entry, "subtype"),
        text("subnqn").trim_end_matches('\0').into(),
        text("traddr").trim_end().into(),
        text("trsvcid").trim_end().into(),
        tls,
    )
}

fn subsystem_entry(name: &str, node: u32, tls: bool) -> (u128, String, String, String, bool) {
    (
        2,
        format!("nqn.2026-01.io.amita:{name}"),
        format!("192.0.2.{node}"),
        "4420".into(),
        tls,
    )
}

fn here() -> (u128, String, String, String, bool) {
    (
        3,
        "nqn.2026-01.io.amita:discovery".into(),
        "192.0.2.1".into(),
        "4420".into(),
        false,
    )
}

#[test]
fn a_host_sees_what_it_may_connect_to() {
    let (generation, entries) = read(&mut connected(HOST, &several()));
    assert_eq!(generation, 5);
    let referral = (
        1,
        "nqn.2014-08.org.nvmexpress.discovery".to_owned(),
        "192.0.2.2".to_owned(),
        "4420".to_owned(),
        false,
    );
    assert_eq!(
        entries.iter().map(|entry| summary(entry)).collect::<Vec<_>>(),
        [
            here(),
            subsystem_entry("mine", 1, false),
            subsystem_entry("mine", 2, false),
            subsystem_entry("open", 2, false),
            subsystem_entry("secret", 1, true),
            referral,
        ],
        "gateway 3 does not live; gateway 2 serves what is not served here"
    );
    let (_, entries) = read(&mut connected("nqn.2026-01.io.stranger", &several()));
    let names: Vec<_> = entries.iter().map(|entry| summary(entry).1).collect();
    assert_eq!(
        names[1..],
        ["nqn.2026-01.io.amita:open", "nqn.2014-08.org.nvmexpress.discovery"]
    );
    let (_, entries) = read(&mut connected(OTHER_HOST, &several()));
    assert!(entries.iter().any(|entry| summary(entry).1.ends_with(":foreign")));
}

#[test]
fn the_fields_of_an_entry() {
    let (_, entries) = read(&mut connected(HOST, &several()));
    let layout = discovery_entry();
    for (index, entry) in entries.iter().enumerate() {
        let get = |name| layout.get(entry, name);
        assert_eq!((get("trtype"), get("adrfam")), (3, 1), "TCP over IPv4");
        assert_eq!(get("cntlid"), 0xffff, "dynamic controllers");
        assert_eq!(get("asqsz"), 32);
        assert_eq!(get("treq") >> 2, 1, "flow control may be left out");
        let leads_to_discovery = get("subtype") != 2;
        assert_eq!(get("eflags"), if leads_to_discovery { 2 } else { 0 }, "entry {index}");
    }
    assert_eq!(layout.get(&entries[1], "portid"), 1);
    assert_eq!(layout.get(&entries[2], "portid"), 2);
    layout.assert_only(
        &entries[1],
        &[
            "trtype", "adrfam", "subtype", "treq", "portid", "cntlid", "asqsz", "trsvcid", "subnqn", "traddr",
        ],
    );
}

#[test]
fn addresses_of_both_families() {
    let mut catalog = several();
    catalog.gateways[1].portal = "[2001:db8::2]:8009".parse().unwrap();
    let session = Session {
        portal: "[::ffff:192.0.2.1]:4420".parse().unwrap(),
        ..session(Kind::Discovery)
    };
    let (_, entries) = read(&mut ready_with(session, &Arc::new(catalog)));
    assert_eq!(summary(&entries[0]), here(), "IPv4, as the host has called it");
    let layout = discovery_entry();
    let six: Vec<_> = entries
        .iter()
        .filter(|entry| layout.get(entry, "adrfam") == 2)
        .collect();
    assert!(!six.is_empty());
    for entry in six {
        let (_, _, address, port, _) = summary(entry);
        assert_eq!((address.as_str(), port.as_str()), ("2001:db8::2", "8009"));
    }
}

#[test]
fn a_host_that_stays_hears_of_changes() {
    let mut admin = connected(HOST, &several());
    let request = |admin: &mut Admin| assert_eq!(turn(admin, &command(0x0c, 0, &[]), &[]), Turn::Later);
    request(&mut admin);
    let (before, _) = read(&mut admin);

    // A change that does not concern this host.
    let mut catalog = several();
    catalog.revision += 1;
    catalog.subsystems.remove(0);
    admin.settings(&Arc::new(catalog.clone()));
    assert!(admin.take_event().is_none());
    assert_eq!(read(&mut admin).0, before, "the log is the same");

    // A gateway is lost.
    catalog.revision += 1;
    catalog.gateways[1].alive = false;
    admin.settings(&Arc::new(catalog.clone()));
    let (_, event) = admin.take_event().unwrap();
    assert_eq!(event.result, 0x70_f0_02);
    catalog.revision += 1;
    catalog.gateways[1].alive = true;
    admin.settings(&Arc::new(catalog.clone()));
    request(&mut admin);
    assert!(admin.take_event().is_none(), "it has not read the log yet");
    let (after, entries) = read(&mut admin);
    assert_eq!(after, catalog.revision);
    assert_eq!(entries.len(), 6);
    let (_, event) = admin.take_event().unwrap();
    assert_eq!(event.result, 0x70_f0_02, "what changed before it read");
    read(&mut admin);
    request(&mut admin);
    assert!(admin.take_event().is_none());
}

#[test]
fn a_host_that_is_let_in_sees_more() {
    let mut admin = connected("nqn.2026-01.io.new", &several());
    let (_, before) = read(&mut admin);
    let mut catalog = several();
    catalog.revision += 1;
    let mut mine = Subsystem::clone(&catalog.subsystems[1]);
    mine.hosts = vec![access(HOST, false), access("nqn.2026-01.io.new", false)];
    mine.hosts.sort_by(|a, b| a.nqn.cmp(&b.nqn));
    catalog.subsystems[1] = Arc::new(mine);
    admin.settings(&Arc::new(catalog));
    let (_, after) = read(&mut admin);
    assert_eq!(after.len(), before.len() + 2);
}

#[test]
fn any_part_of_the_log_can_be_read() {
    let mut admin = connected(HOST, &several());
    let whole = data(&mut admin, &log(0x70, 0, 7 * 1024, 0));
    for (offset, length) in [
        (0, 4),
        (8, 8),
        (1000, 100),
        (1024, 1024),
        (3000, 4000),
        (7164, 4),
        (7 * 1024, 64),
    ] {
        let mut expected = whole[offset.min(whole.len())..].to_vec();
        expected.resize(length, 0);
        assert_eq!(
            data(&mut admin, &log(0x70, 0, length, offset as u64)),
            expected,
            "{length} at {offset}"
        );
    }
    assert_eq!(failure(&mut admin, &log(0x70, 0, 4, 7 * 1024 + 4)), 0x002);
    assert_eq!(failure(&mut admin, &log(0x70, 0, 4, u64::MAX - 3)), 0x002);
}

#[test]
fn a_cluster_without_anything() {
    let mut empty = catalog_of(Vec::new());
    empty.discovery_nqn = String::new();
    let (_, entries) = read(&mut connected(HOST, &empty));
    assert_eq!(entries.len(), 1);
    assert_eq!(summary(&entries[0]).1, DISCOVERY_NQN);
}
