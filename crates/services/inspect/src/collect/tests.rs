//! Collectors on machines that were written down, and on this one.

use super::*;
use crate::inventory::{Disk, Health, Latency, Smart};
use std::fs;
use std::os::unix::fs::symlink;
use tempfile::TempDir;

fn write(root: &TempDir, path: &str, text: &str) {
    let path = root.path().join(path);
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, text).expect("a file");
}

fn link(root: &TempDir, from: &str, to: &str) {
    let from = root.path().join(from);
    fs::create_dir_all(from.parent().expect("a folder")).expect("a folder");
    symlink(root.path().join(to), from).expect("a link");
}

fn empty() -> (TempDir, Root) {
    let folder = TempDir::new().expect("a folder");
    let root = Root::at(folder.path());
    (folder, root)
}

#[test]
fn a_machine_is_read_from_proc_and_sys() {
    let (folder, root) = empty();
    for (path, text) in [
        ("proc/sys/kernel/random/boot_id", "6ea2c9a4-0001\n"),
        ("proc/sys/kernel/osrelease", "6.6.1-1-generic\n"),
        ("proc/sys/kernel/io_uring_disabled", "1\n"),
        ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"),
        ("sys/devices/system/cpu/cpu11/cpufreq/scaling_governor", "performance\n"),
        ("sys/devices/system/cpu/cpufreq/policy0", "not a processor"),
        ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
        (
            "proc/meminfo",
            "MemTotal:       65536 kB\nSwapTotal:       2048 kB\nSwapFree: 1 kB\n",
        ),
        ("proc/self/status", "Name:\tamita\nVmSwap:\t     512 kB\n"),
        (
            "proc/self/limits",
            "Limit                     Soft Limit           Hard Limit           Units     \n\
             Max open files            1024                 1048576              files     \n\
             Max locked memory         unlimited            unlimited            bytes     \n",
        ),
    ] {
        write(&folder, path, text);
    }
    let found = host(&root, Ok(vec!["nodrop".to_owned()]));
    assert_eq!(found.kernel, Known::Is("6.6.1-1-generic".to_owned()));
    assert_eq!(found.uring_disabled, Known::Is(1));
    assert_eq!(
        found.governors,
        Known::Is(vec!["performance".to_owned(), "powersave".to_owned()])
    );
    assert_eq!(found.huge_pages, Known::Is("madvise".to_owned()));
    let swap = found.swap.get().expect("swap");
    assert_eq!((swap.total_bytes, swap.process_bytes), (2 << 20, 512 << 10));
    let limits = found.limits.get().expect("limits");
    assert_eq!((limits.open_files, limits.locked_bytes), (Some(1024), None));
}

/// Nothing that cannot be read looks as if it were well.
#[test]
fn a_machine_that_says_nothing_is_not_known() {
    let (_folder, root) = empty();
    let found = host(&root, Err("no ring".to_owned()));
    assert!(found.kernel.get().is_err() && found.boot_id.get().is_err() && found.uring.get().is_err());
    assert!(
        found.uring_disabled.get().is_err(),
        "no kernel was seen, so nobody knows its switches"
    );
    assert!(found.governors.get().is_err() && found.huge_pages.get().is_err());
    assert!(found.swap.get().is_err() && found.limits.get().is_err() && found.memory_bytes.get().is_err());
    assert!(nics(&root, &BTreeMap::new(), &[]).is_err());
}

#[test]
fn this_very_machine_can_be_read() {
    let found = host(&Root::default(), uring());
    assert!(found.kernel.get().is_ok() && found.boot_id.get().is_ok(), "{found:?}");
    assert!(found.limits.get().is_ok() && found.swap.get().is_ok(), "{found:?}");
    let own = addresses().expect("addresses");
    let loopback: IpAddr = [127, 0, 0, 1].into();
    assert!(own.values().flatten().any(|address| *address == loopback), "{own:?}");
    let serving = [Serving {
        what: "fabric",
        address: loopback,
    }];
    let all = nics(&Root::default(), &own, &serving).expect("interfaces");
    assert_eq!(
        (all[0].name.as_str(), &all[0].serves),
        ("lo", &vec!["fabric".to_owned()])
    );
}

fn interface(root: &TempDir, name: &str, files: &[(&str, &str)]) {
    let folder = format!("sys/class/net/{name}");
    write(root, &format!("{folder}/statistics/rx_packets"), "1000\n");
    write(root, &format!("{folder}/mtu"), "1500\n");
    write(root, &format!("{folder}/operstate"), "up\n");
    for (file, text) in files {
        write(root, &format!("{folder}/{file}"), text);
    }
}

#[test]
fn interfaces_are_read_with_what_is_served_by_them() {
    let (folder, root) = empty();
    interface(&folder, "lo", &[("operstate", "unknown")]);
    interface(&folder, "veth7", &[]);
    interface(
        &folder,
        "eth0",
        &[("device/vendor", "0x8086"), ("speed", "25000"), ("duplex", "full")],
    );
    interface(
        &folder,
        "eth1",
        &[
            ("device/vendor", "0x8086"),
            ("speed", "-1"),
            ("duplex", "unknown"),
            ("operstate", "down"),
            ("statistics/rx_errors", "7"),
            ("statistics/tx_errors", "1"),
            ("carrier_changes", "9"),
        ],
    );
    interface(
        &folder,
        "bond0",
        &[("bonding/slaves", "eth0 eth1"), ("speed", "25000"), ("duplex", "full")],
    );
    write(&folder, "sys/class/net/bonding_masters", "bond0\n");
    let outer: IpAddr = [192, 0, 2, 1].into();
    let addresses = BTreeMap::from([
        ("lo".to_owned(), vec![[127, 0, 0, 1].into()]),
        ("bond0".to_owned(), vec![outer]),
    ]);
    let serving = [
        Serving {
            what: "fabric",
            address: outer,
        },
        Serving {
            what: "nvme",
            address: [0, 0, 0, 0].into(),
        },
    ];
    let all = nics(&root, &addresses, &serving).expect("interfaces");
    let names: Vec<&str> = all.iter().map(|nic| nic.name.as_str()).collect();
    // Those that are served by come first; a container's end and loopback, where nothing is, are nobody's matter.
    assert_eq!(names, ["bond0", "eth0", "eth1"]);
    assert_eq!(all[0].serves, ["fabric", "nvme"]);
    assert_eq!(
        all[0].bond.iter().map(|joined| joined.up).collect::<Vec<_>>(),
        [true, false]
    );
    assert_eq!(
        (all[1].speed(), all[1].up, all[1].is_virtual),
        (Some(25_000), true, false)
    );
    assert!(all[2].speed_mbit.get().is_err() && all[2].full_duplex.get().is_err() && !all[2].up);
    assert_eq!((all[2].errors, all[2].carrier_changes), (8, 9));
}

fn health() -> Health {
    let mut page = [0_u8; 512];
    page[0] = 0b100;
    page[1..3].copy_from_slice(&311_u16.to_le_bytes());
    (page[3], page[4], page[5]) = (97, 10, 12);
    page[128..136].copy_from_slice(&8760_u64.to_le_bytes());
    page[160] = 3;
    log(&page).expect("a log")
}

#[test]
fn a_health_log_is_read_as_the_specification_lays_it_out() {
    let mut found = health();
    assert_eq!((found.warnings, found.temperature_c), (4, 38));
    assert_eq!(
        (found.spare_percent, found.spare_least_percent, found.used_percent),
        (97, 10, 12)
    );
    assert_eq!(
        (found.on_hours, found.media_errors, found.volatile_cache),
        (8760, 3, None)
    );
    let mut identified = vec![0_u8; 4096];
    identified[525] = 0b111;
    identified[266..268].copy_from_slice(&343_u16.to_le_bytes());
    controller(&identified, &mut found).expect("the controller's data");
    assert_eq!((found.volatile_cache, found.warns_at_c), (Some(true), Some(70)));
    // Counters have 16 bytes.
    let mut page = [0xFF_u8; 512];
    assert_eq!(log(&page).expect("a log").on_hours, u64::MAX);
    page.fill(0);
    assert!(log(&page).is_err(), "nothing was measured");
    assert!(log(&page[..100]).is_err() && controller(&identified[..500], &mut found).is_err());
}

/// A disk with a partition, and a mapped device on another one.
fn disks_written_down() -> (TempDir, Root) {
    let (folder, root) = empty();
    for (name, cache) in [("nvme0n1", "write through"), ("sda", "write back")] {
        write(&folder, &format!("sys/block/{name}/queue/write_cache"), cache);
        write(&folder, &format!("sys/block/{name}/queue/rotational"), "0\n");
        write(&folder, &format!("sys/block/{name}/ro"), "0\n");
        write(&folder, &format!("sys/block/{name}/device/model"), "Example D7  \n");
        write(&folder, &format!("sys/block/{name}/device/serial"), "S1\n");
    }
    write(&folder, "sys/block/nvme0n1/nvme0n1p2/partition", "2\n");
    write(&folder, "sys/block/dm-0/queue/rotational", "0\n");
    link(&folder, "sys/dev/block/259:2", "sys/block/nvme0n1/nvme0n1p2");
    link(&folder, "sys/dev/block/253:0", "sys/block/dm-0");
    link(&folder, "sys/block/dm-0/slaves/sda", "sys/block/sda");
    (folder, root)
}

fn on(path: &Path) -> Result<(u32, u32), String> {
    match path.to_str() {
        Some("/dev/nvme0n1p2") => Ok((259, 2)),
        Some("/dev/mapper/data") => Ok((253, 0)),
        Some("/tmp/file") => Ok((0, 44)),
        _ => Err("no such file".to_owned()),
    }
}

fn read_disks(root: &Root, figures: &Result<Vec<Figures>, String>, before: &[Disk], now: u64) -> Vec<Disk> {
    let paths = ["/dev/nvme0n1p2", "/dev/mapper/data", "/tmp/file", "/dev/gone"].map(PathBuf::from);
    let below = Below {
        number: &on,
        health: &|name| {
            if name.starts_with("nvme") {
                Ok(health())
            } else {
                health_of(name)
            }
        },
        smart: &|name| {
            assert_eq!(name, "sda");
            let own = crate::inventory::tests::smart();
            Ok(Smart {
                pending: Some(2),
                ..own
            })
        },
    };
    let looked = paths.map(|path| (path.clone(), device(root, &path, &below)));
    disks(looked.to_vec(), figures, before, now)
}

#[test]
fn the_disks_beneath_stores_are_found() {
    let (_folder, root) = disks_written_down();
    let latency = Latency {
        reads: 5000,
        read_p99_us: 200,
        writes: 10,
        write_p99_us: 90,
    };
    let figures = Ok(vec![Figures {
        path: "/dev/nvme0n1p2".to_owned(),
        used_bytes: 77,
        latency: Some(latency),
    }]);
    let all = read_disks(&root, &figures, &[], 1000);
    let first = all[0].device.get().expect("a device");
    assert_eq!(
        (first.name.as_str(), first.model.as_str(), first.serial.as_str()),
        ("nvme0n1", "Example D7", "S1")
    );
    assert_eq!(
        (&first.flushed, &first.read_only),
        (&Known::Is(false), &Known::Is(false))
    );
    assert_eq!(first.health.get().expect("health").media_errors, 3);
    assert_eq!(all[0].latency, Known::Is(latency));
    let sample = all[0].samples[0];
    // Of ten writes nobody can say how long they take.
    assert_eq!(
        (sample.used_bytes, sample.read_p99_us, sample.write_p99_us),
        (Some(77), Some(200), None)
    );
    let second = all[1].device.get().expect("a device");
    assert_eq!((second.name.as_str(), &second.flushed), ("sda", &Known::Is(true)));
    assert!(second.health.get().expect_err("no NVMe disk").contains("SMART"));
    assert_eq!(second.smart.as_ref().and_then(|smart| smart.pending), Some(2));
    assert_eq!(first.smart, None);
    let sample = all[1].samples[0];
    assert_eq!(
        (sample.worn_percent, sample.pending, sample.reallocated),
        (Some(4), Some(2), Some(0))
    );
    assert_eq!(all[0].samples[0].uncorrectable, Some(3), "its media errors");
    // What is neither NVMe nor SCSI to the kernel is asked by nobody.
    assert!(health_of("vda").expect_err("virtio").contains("nobody can ask it"));
    assert!(all[1].latency.get().is_err());
    assert_eq!(second.serial, "S1");
    assert!(all[2].device.get().expect_err("memory").contains("no block device"));
    assert!(all[3].device.get().expect_err("gone").contains("no such file"));
}

#[test]
fn the_past_of_a_disk_grows_by_a_day_and_ends_with_the_disk() {
    const DAY: u64 = 24 * 3600;
    let (folder, root) = disks_written_down();
    let nothing = Err("no figures".to_owned());
    let mut known = read_disks(&root, &nothing, &[], DAY);
    known = read_disks(&root, &nothing, &known, DAY + 3600);
    assert_eq!(known[0].samples.len(), 1);
    for day in 2..20 {
        known = read_disks(&root, &nothing, &known, day * DAY);
    }
    let samples = &known[0].samples;
    assert_eq!((samples.len(), samples[0].at, samples[7].at), (8, 12 * DAY, 19 * DAY));
    // The clock was wrong, and is right again.
    let known = read_disks(&root, &nothing, &known, 15 * DAY);
    assert_eq!(known[0].samples.last().map(|sample| sample.at), Some(15 * DAY));
    // Another disk at the same place.
    write(&folder, "sys/block/nvme0n1/device/serial", "S2\n");
    assert_eq!(read_disks(&root, &nothing, &known, 21 * DAY)[0].samples.len(), 1);
}
