//! The record: that it is bounded, and that what does not fit is said.

use super::*;

/// An NVMe disk with which nothing is wrong.
pub(crate) fn device(name: &str) -> Device {
    Device {
        name: name.to_owned(),
        model: "Example D7".to_owned(),
        serial: "S0000".to_owned(),
        rotational: Known::Is(false),
        flushed: Known::Is(false),
        read_only: Known::Is(false),
        health: Known::Is(Health {
            warnings: 0,
            temperature_c: 38,
            warns_at_c: Some(70),
            spare_percent: 100,
            spare_least_percent: 10,
            used_percent: 4,
            on_hours: 20_000,
            media_errors: 0,
            volatile_cache: Some(false),
        }),
        smart: None,
    }
}

/// A machine with which nothing is wrong.
pub(crate) fn healthy(node: u32, at: u64) -> Inventory {
    let device = Device {
        serial: format!("S{node:04}"),
        ..device(&format!("nvme{node}n1"))
    };
    let samples = (0..4).map(|day| Sample {
        at: at - (4 - day) * 24 * 3600,
        used_bytes: Some(16 << 30),
        worn_percent: Some(4),
        read_p99_us: Some(280),
        write_p99_us: Some(90),
        reallocated: None,
        pending: None,
        uncorrectable: None,
    });
    Inventory {
        version: VERSION,
        taken_at: at,
        program: "0.1.0".to_owned(),
        metadata_addresses: 3,
        host: Host {
            boot_id: Known::Is(format!("boot-{node}")),
            kernel: Known::Is("6.1.0-38-amd64".to_owned()),
            uring: Known::Is(vec!["nodrop".to_owned(), "fast_poll".to_owned()]),
            uring_disabled: Known::Is(0),
            governors: Known::Is(vec!["performance".to_owned()]),
            huge_pages: Known::Is("madvise".to_owned()),
            memory_bytes: Known::Is(64 << 30),
            swap: Known::Is(Swap {
                total_bytes: 0,
                process_bytes: 0,
            }),
            limits: Known::Is(Limits {
                open_files: Some(1 << 20),
                locked_bytes: None,
            }),
        },
        clock: Clock {
            synchronised: Known::Is(true),
            seen: (1..=4)
                .filter(|other| *other != node)
                .map(|node| Sight { node, least_ms: 10 })
                .collect(),
        },
        nics: Known::Is(vec![Nic {
            name: "bond0".to_owned(),
            serves: vec!["fabric".to_owned(), "nvme".to_owned()],
            up: true,
            is_virtual: true,
            speed_mbit: Known::Is(50_000),
            full_duplex: Known::Is(true),
            mtu: Known::Is(9000),
            packets: 4_000_000_000,
            errors: 3,
            carrier_changes: 2,
            bond: ["eth0", "eth1"]
                .map(|name| Joined {
                    name: name.to_owned(),
                    up: true,
                })
                .to_vec(),
        }]),
        disks: vec![Disk {
            path: "/dev/x".to_owned(),
            device: Known::Is(device),
            latency: Known::Is(Latency {
                reads: 50_000,
                read_p99_us: 300,
                writes: 20_000,
                write_p99_us: 100,
            }),
            samples: samples.collect(),
        }],
        certificate: Known::Is(Some(Certificate {
            begins: at - 10 * 24 * 3600,
            ends: at + 80 * 24 * 3600,
            authority_ends: Some(at + 2000 * 24 * 3600),
            ..Certificate::default()
        })),
        settings: vec![Setting {
            name: "lease".to_owned(),
            value: "5".to_owned(),
            usual: "5".to_owned(),
        }],
        left_out: Vec::new(),
    }
}

/// A SATA disk with which nothing is wrong.
pub(crate) fn smart() -> Smart {
    Smart {
        by: CommandSet::Ata,
        failing: Some(false),
        because: String::new(),
        temperature_c: Some(36),
        warns_at_c: None,
        on_hours: Some(20_000),
        used_percent: Some(4),
        reallocated: Some(0),
        pending: Some(0),
        uncorrectable: Some(0),
        timeouts: Some(0),
        link_errors: Some(2),
    }
}

/// Programs of before knew neither SMART nor counts in samples.
#[test]
fn a_record_of_before_is_read() {
    let mut old = serde_json::to_value(healthy(1, 1_800_000_000)).expect("JSON");
    let device = &old["disks"][0]["device"]["is"];
    assert!(device["name"].is_string() && device.get("smart").is_none(), "{device}");
    assert!(old["disks"][0]["samples"][0].get("pending").is_none());
    let read = Inventory::decode(old.to_string().as_bytes()).expect("a record");
    assert_eq!(read, healthy(1, 1_800_000_000));
    old["disks"][0]["device"]["is"]["smart"] = serde_json::to_value(smart()).expect("JSON");
    let read = Inventory::decode(old.to_string().as_bytes()).expect("a record");
    assert_eq!(read.disks[0].device.get().expect("a device").smart, Some(smart()));
}

#[test]
fn a_record_comes_back_as_it_was() {
    let whole = healthy(1, 1_800_000_000);
    let bytes = whole.encode();
    assert!(bytes.len() < 4096, "{} bytes", bytes.len());
    assert_eq!(Inventory::decode(&bytes), Ok(whole));
}

#[test]
fn a_machine_with_too_much_fits_and_says_what_is_missing() {
    let mut whole = healthy(1, 1_800_000_000);
    let disk = whole.disks[0].clone();
    whole.disks = (0..200)
        .map(|number| Disk {
            path: format!("/dev/disk/by-id/nvme-something-long-{number:04}"),
            ..disk.clone()
        })
        .collect();
    let bytes = whole.encode();
    assert!(bytes.len() <= MAX_BYTES, "{} bytes", bytes.len());
    let read = Inventory::decode(&bytes).expect("a record");
    let missing = whole.disks.len() - read.disks.len();
    assert!((1..200).contains(&missing), "{missing}");
    assert!(
        read.left_out.contains(&format!("{missing} disks")),
        "{:?}",
        read.left_out
    );
    // A few more than fit lose their past first.
    whole.disks.truncate(20);
    let read = Inventory::decode(&whole.encode()).expect("a record");
    assert_eq!(read.disks.len(), 20);
    assert!(!read.left_out.is_empty());
}

#[test]
fn a_newer_or_a_broken_record_says_why_it_is_not_read() {
    let mut newer = serde_json::to_value(healthy(1, 1_800_000_000)).expect("JSON");
    newer["version"] = (VERSION + 1).into();
    let why = Inventory::decode(newer.to_string().as_bytes()).expect_err("newer");
    assert!(why.contains("newer"), "{why}");
    assert!(Inventory::decode(b"{").expect_err("broken").contains("cannot be read"));
    // Within a version fields may come to it.
    newer["version"] = VERSION.into();
    newer["of_tomorrow"] = 1.into();
    assert!(Inventory::decode(newer.to_string().as_bytes()).is_ok());
}

#[test]
fn what_changes_by_itself_is_not_worth_a_record_and_what_matters_is() {
    let before = healthy(1, 1_800_000_000);
    let mut after = before.clone();
    after.taken_at += 300;
    after.clock.seen[0].least_ms = 14;
    let Known::Is(nics) = &mut after.nics else {
        panic!("nics")
    };
    nics[0].packets += 1000;
    assert_eq!(before.lasting(), after.lasting());
    let Known::Is(device) = &mut after.disks[0].device else {
        panic!("a device")
    };
    let Known::Is(health) = &mut device.health else {
        panic!("health")
    };
    health.media_errors = 1;
    assert_ne!(before.lasting(), after.lasting());
    let sata = |degrees, pending| {
        let mut own = before.clone();
        let Known::Is(device) = &mut own.disks[0].device else {
            panic!("a device")
        };
        device.smart = Some(Smart {
            temperature_c: Some(degrees),
            pending: Some(pending),
            ..smart()
        });
        own.lasting()
    };
    assert_eq!(sata(30, 0), sata(40, 0));
    assert_ne!(sata(30, 0), sata(30, 1));
}
