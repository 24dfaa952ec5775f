//! Every fault, as it stands in the facts.

use super::{AT, GIB};
use crate::code::Code;
use crate::gather::Facts;
use crate::inventory::{Disk, Health, Inventory, Known, Nic, Setting, Smart};
use crate::sheet::Severity;
use amita_types::map::{IscsiLun, IscsiTarget, Namespace, PoolKind, Subsystem};
use amita_types::placement::Level;
use amita_types::{ClusterId, NodeId, VolumeId};

pub fn told(facts: &mut Facts, node: u32) -> &mut Inventory {
    match facts.inventories.get_mut(&NodeId(node)) {
        Some(Known::Is(inventory)) => inventory,
        other => panic!("{other:?}"),
    }
}

pub fn each(facts: &mut Facts, change: impl Fn(&mut Inventory)) {
    (1..=4).for_each(|node| change(told(facts, node)));
}

fn nic(facts: &mut Facts) -> &mut Nic {
    match &mut told(facts, 1).nics {
        Known::Is(nics) => &mut nics[0],
        other @ Known::NotKnown(_) => panic!("{other:?}"),
    }
}

pub fn disk(facts: &mut Facts) -> &mut Disk {
    &mut told(facts, 1).disks[0]
}

fn device(facts: &mut Facts) -> &mut crate::inventory::Device {
    match &mut disk(facts).device {
        Known::Is(device) => device,
        other @ Known::NotKnown(_) => panic!("{other:?}"),
    }
}

pub fn health(facts: &mut Facts) -> &mut Health {
    match &mut device(facts).health {
        Known::Is(health) => health,
        other @ Known::NotKnown(_) => panic!("{other:?}"),
    }
}

/// The first node's disk is a SATA disk.
pub fn sata(facts: &mut Facts) -> &mut Smart {
    let device = device(facts);
    device.health = Known::NotKnown("it is no NVMe disk, and is asked for its SMART data".to_owned());
    device.smart.get_or_insert_with(crate::inventory::tests::smart)
}

/// What it counts of errors was, day by day.
pub fn past_errors(facts: &mut Facts, counts: [u64; 4]) {
    for (sample, count) in disk(facts).samples.iter_mut().zip(counts) {
        sample.uncorrectable = Some(count);
    }
}

fn reads(disk: &mut Disk, us: u64) {
    let Known::Is(latency) = &mut disk.latency else {
        panic!("a latency")
    };
    latency.read_p99_us = us;
}

fn copies(facts: &mut Facts, copies: u8, min_copies: u8) {
    facts.status.pools[0].pool.kind = PoolKind::Replicated { copies, min_copies };
}

pub fn subsystem() -> Subsystem {
    Subsystem {
        name: "vms".to_owned(),
        nqn: "nqn.2026-01.io.test:vms".to_owned(),
        serial: "1".to_owned(),
        gateways: Vec::new(),
        any_host: false,
        tls_required: false,
        hosts: Vec::new(),
        namespaces: vec![Namespace {
            nsid: 1,
            volume: VolumeId(1),
            uuid: Namespace::uuid_of(ClusterId(9), VolumeId(1)),
            block_bytes: 4096,
            snapshot: None,
        }],
    }
}

fn target() -> IscsiTarget {
    IscsiTarget {
        name: "vms".to_owned(),
        iqn: "iqn.2026-01.io.test:vms".to_owned(),
        gateways: Vec::new(),
        any_initiator: false,
        chap_required: false,
        initiators_move: false,
        space_warning_percent: None,
        initiators: Vec::new(),
        luns: vec![IscsiLun {
            number: 0,
            volume: VolumeId(1),
            uuid: Namespace::uuid_of(ClusterId(9), VolumeId(1)),
            block_bytes: 512,
            snapshot: None,
            shared: false,
        }],
    }
}

/// A fault, the code that finds it, how much it is to matter, and where.
pub type Planted = (Code, Severity, &'static str, fn(&mut Facts));

use Severity::{Critical, Notice, Warning};

const REDUNDANCY: &[Planted] = &[
    (Code::CopiesSingle, Warning, "pool main", |facts| copies(facts, 1, 1)),
    (Code::CopiesOnOneNode, Warning, "pool main", |facts| {
        facts.status.pools[0].pool.failure_domain = Level::Disk
    }),
    (Code::MinCopiesAll, Warning, "pool main", |facts| copies(facts, 3, 3)),
    (Code::MinCopiesOne, Notice, "pool main", |facts| copies(facts, 3, 1)),
    (Code::NoSpareDomain, Notice, "pool main", |facts| {
        facts.status.stores[3].store.weight = 0
    }),
    (Code::OneMachine, Notice, "node n1, n2", |facts| {
        told(facts, 2).host.boot_id = Known::Is("boot-1".to_owned())
    }),
    (Code::MetadataOneAddress, Warning, "cluster", |facts| {
        told(facts, 3).metadata_addresses = 1
    }),
    (Code::GatewaySingle, Warning, "subsystem vms", |facts| {
        facts.status.nodes[1].node.nvme = Some("192.0.2.2:4420".to_owned());
        facts.subsystems.push(subsystem());
    }),
    (Code::GatewaySingle, Warning, "target vms", |facts| {
        facts.status.nodes[1].iscsi = vec!["192.0.2.2:3260".to_owned(), "198.51.100.2:3260".to_owned()];
        facts.targets.push(target());
    }),
];

const NETWORK: &[Planted] = &[
    (Code::LinkSingle, Notice, "node n1", |facts| {
        let nic = nic(facts);
        (nic.is_virtual, nic.bond) = (false, Vec::new());
    }),
    (Code::ClockOff, Warning, "node n2", |facts| clock(facts, 5000)),
    (Code::ClockOff, Critical, "node n2", |facts| clock(facts, -60_000)),
    (Code::ClockOff, Notice, "node n2", |facts| clock(facts, 300)),
    (Code::ClockFree, Notice, "node n1", |facts| {
        told(facts, 1).clock.synchronised = Known::Is(false)
    }),
    (Code::NicDown, Warning, "nic n1/bond0", |facts| nic(facts).up = false),
    (Code::NicSlow, Warning, "nic n1/bond0", |facts| {
        nic(facts).speed_mbit = Known::Is(1000)
    }),
    (Code::NicHalfDuplex, Warning, "nic n1/bond0", |facts| {
        nic(facts).full_duplex = Known::Is(false)
    }),
    (Code::NicErrors, Warning, "nic n1/bond0", |facts| {
        nic(facts).errors = 1_000_000
    }),
    (Code::BondDegraded, Warning, "nic n1/bond0", |facts| {
        nic(facts).bond[1].up = false
    }),
    (Code::MtuDiffers, Warning, "cluster", |facts| {
        nic(facts).mtu = Known::Is(1500)
    }),
];

const MACHINES: &[Planted] = &[
    (Code::KernelDiffers, Notice, "cluster", |facts| {
        told(facts, 1).host.kernel = Known::Is("6.1.0-9-amd64".to_owned())
    }),
    (Code::KernelOld, Warning, "node n1", |facts| {
        each(facts, |own| own.host.kernel = Known::Is("5.4.0-1".to_owned()))
    }),
    (Code::UringRestricted, Warning, "node n1", |facts| {
        told(facts, 1).host.uring_disabled = Known::Is(2)
    }),
    (Code::UringDiffers, Notice, "cluster", |facts| {
        told(facts, 1).host.uring = Known::Is(vec!["nodrop".to_owned()])
    }),
    (Code::GovernorSaves, Notice, "node n1", |facts| {
        told(facts, 1).host.governors = Known::Is(vec!["powersave".to_owned()])
    }),
    (Code::HugePagesAlways, Notice, "node n1", |facts| {
        told(facts, 1).host.huge_pages = Known::Is("always".to_owned())
    }),
    (Code::ProcessSwapped, Warning, "node n1", |facts| swap(facts, GIB, GIB)),
    (Code::SwapOn, Notice, "node n1", |facts| swap(facts, GIB, 0)),
    (Code::OpenFilesFew, Warning, "node n1", |facts| files(facts, 1024)),
    (Code::OpenFilesFew, Notice, "node n1", |facts| files(facts, 20_000)),
];

const DISKS: &[Planted] = &[
    (Code::DiskReadOnly, Critical, "disk n1/nvme1n1", |facts| {
        device(facts).read_only = Known::Is(true)
    }),
    (Code::CacheHidden, Critical, "disk n1/nvme1n1", |facts| {
        health(facts).volatile_cache = Some(true)
    }),
    (Code::CacheVolatile, Notice, "disk n1/nvme1n1", |facts| {
        device(facts).flushed = Known::Is(true);
        health(facts).volatile_cache = Some(true);
    }),
    (Code::DiskTurns, Warning, "disk n1/nvme1n1", |facts| {
        device(facts).rotational = Known::Is(true);
        let own = facts
            .status
            .stores
            .iter_mut()
            .find(|found| found.node_name == "n1")
            .expect("a store");
        "nvme".clone_into(&mut own.store.class);
    }),
    (Code::DiskWarns, Critical, "disk n1/nvme1n1", |facts| {
        health(facts).warnings = 0b100
    }),
    (Code::DiskWorn, Warning, "disk n1/nvme1n1", |facts| {
        worn(facts, 85, 50_000)
    }),
    (Code::DiskWorn, Critical, "disk n1/nvme1n1", |facts| {
        worn(facts, 103, 50_000)
    }),
    (Code::DiskWearsOut, Warning, "disk n1/nvme1n1", |facts| {
        worn(facts, 50, 2400)
    }),
    (Code::DiskSpareLow, Critical, "disk n1/nvme1n1", |facts| {
        health(facts).spare_percent = 9
    }),
    (Code::DiskMediaErrors, Warning, "disk n1/nvme1n1", |facts| {
        health(facts).media_errors = 1
    }),
    (Code::DiskHot, Warning, "disk n1/nvme1n1", |facts| {
        health(facts).temperature_c = 71
    }),
    (Code::DiskHot, Warning, "disk n1/nvme1n1", |facts| {
        sata(facts).temperature_c = Some(71)
    }),
    (Code::DiskPredictsFailure, Critical, "disk n1/nvme1n1", |facts| {
        sata(facts).failing = Some(true);
        sata(facts).because = "attribute 5 is at 9, and fails from 10 down".to_owned();
    }),
    (Code::DiskBadSectors, Warning, "disk n1/nvme1n1", |facts| {
        sata(facts).pending = Some(2)
    }),
    (Code::DiskBadSectors, Notice, "disk n1/nvme1n1", |facts| {
        sata(facts).reallocated = Some(2)
    }),
    (Code::DiskWorn, Critical, "disk n1/nvme1n1", |facts| {
        sata(facts).used_percent = Some(100)
    }),
    (Code::DiskLinkErrors, Notice, "disk n1/nvme1n1", |facts| {
        sata(facts).link_errors = Some(5000)
    }),
    (Code::DiskErrorsGrow, Warning, "disk n1/nvme1n1", |facts| {
        past_errors(facts, [2, 2, 2, 2]);
        health(facts).media_errors = 3;
    }),
    (Code::DiskErrorsGrow, Critical, "disk n1/nvme1n1", |facts| {
        past_errors(facts, [0, 4, 4, 4]);
        health(facts).media_errors = 9;
    }),
    (Code::DiskErrorsGrow, Critical, "disk n1/nvme1n1", |facts| {
        past_errors(facts, [0, 4, 4, 4]);
        sata(facts).uncorrectable = Some(9);
    }),
    (Code::DiskSlows, Warning, "disk n1//dev/x", |facts| {
        each(facts, |own| {
            reads(&mut own.disks[0], 3000);
            past_reads(&mut own.disks[0], 3000);
        });
        let own = disk(facts);
        reads(own, 3300);
        for (sample, us) in own.samples.iter_mut().zip([1500, 1800, 2200, 2700]) {
            sample.read_p99_us = Some(us);
        }
    }),
    (Code::DiskSlowerThanSiblings, Warning, "disk n1//dev/x", |facts| {
        reads(disk(facts), 9000);
        past_reads(disk(facts), 8000);
    }),
    (Code::DiskSlowerThanBefore, Warning, "disk n1//dev/x", |facts| {
        each(facts, |own| {
            reads(&mut own.disks[0], 9000);
            past_reads(&mut own.disks[0], 8000);
        });
        past_reads(disk(facts), 280);
    }),
];

const UPKEEP: &[Planted] = &[
    (Code::PoolFillsSoon, Warning, "pool main", |facts| grow(facts, 4 * GIB)),
    (Code::PoolFillsSoon, Notice, "pool main", |facts| grow(facts, GIB)),
    (Code::StoresUneven, Warning, "pool main", |facts| {
        facts.status.stores[0].space.as_mut().expect("a space").free_bytes = 12 * GIB;
    }),
    (Code::GroupsUneven, Notice, "store", |facts| {
        facts.status.stores[0].groups = 120
    }),
    (Code::CertificateEnds, Warning, "node n1", |facts| {
        certificate(facts, 20, 2000)
    }),
    (Code::CertificateEnds, Critical, "node n1", |facts| {
        certificate(facts, 1, 2000)
    }),
    (Code::AuthorityEnds, Warning, "cluster", |facts| {
        certificate(facts, 80, 100)
    }),
    (Code::AuthorityEnds, Critical, "cluster", |facts| {
        certificate(facts, 80, 20)
    }),
    (Code::ProgramDiffers, Notice, "cluster", |facts| {
        told(facts, 1).program = "0.0.9".to_owned()
    }),
    (Code::VersionNotFinal, Notice, "cluster", |facts| {
        facts.versions.cluster -= 1
    }),
    (Code::SettingUnusual, Notice, "node n1", |facts| {
        each(facts, |own| own.settings[0].value = "9".to_owned())
    }),
    (Code::SettingUnusual, Notice, "cluster", |facts| {
        facts.thresholds.near_full_percent = 60
    }),
    (Code::SettingUnusual, Notice, "cluster", |facts| {
        facts.recovery.automatic = false
    }),
    (Code::SettingDiffers, Notice, "cluster", |facts| {
        let same = Setting {
            name: "scrub-days".to_owned(),
            value: "0".to_owned(),
            usual: "0".to_owned(),
        };
        each(facts, |own| own.settings.push(same.clone()));
        let own = &mut told(facts, 1).settings[1];
        (own.value, own.usual) = ("14".to_owned(), "14".to_owned());
    }),
];

/// The second node's clock is so many milliseconds ahead of all others.
fn clock(facts: &mut Facts, ahead_ms: i64) {
    for node in 1..=4 {
        for sight in &mut told(facts, node).clock.seen {
            if node == 2 {
                sight.least_ms += ahead_ms;
            } else if sight.node == 2 {
                sight.least_ms -= ahead_ms;
            }
        }
    }
}

fn swap(facts: &mut Facts, total_bytes: u64, process_bytes: u64) {
    told(facts, 1).host.swap = Known::Is(crate::inventory::Swap {
        total_bytes,
        process_bytes,
    });
}

fn files(facts: &mut Facts, open_files: u64) {
    told(facts, 1).host.limits = Known::Is(crate::inventory::Limits {
        open_files: Some(open_files),
        locked_bytes: None,
    });
}

pub fn worn(facts: &mut Facts, percent: u8, hours: u64) {
    let health = health(facts);
    (health.used_percent, health.on_hours) = (percent, hours);
}

fn past_reads(disk: &mut Disk, us: u64) {
    disk.samples.iter_mut().for_each(|sample| sample.read_p99_us = Some(us));
}

/// By so many bytes a day, to what is used now.
fn grow(facts: &mut Facts, bytes: u64) {
    let samples = &mut disk(facts).samples;
    let count = samples.len() as u64;
    for (day, sample) in samples.iter_mut().enumerate() {
        sample.used_bytes = Some(16 * GIB - (count - day as u64) * bytes);
    }
}

/// Certificates of 90 days end in so many days, and the authority as well.
fn certificate(facts: &mut Facts, days: u64, authority: u64) {
    const DAY: u64 = 24 * 3600;
    told(facts, 1).certificate = Known::Is(Some(crate::inventory::Certificate {
        begins: AT + days * DAY - 90 * DAY,
        ends: AT + days * DAY,
        authority_ends: Some(AT + authority * DAY),
        ..crate::inventory::Certificate::default()
    }));
}

pub fn all() -> impl Iterator<Item = &'static Planted> {
    [REDUNDANCY, NETWORK, MACHINES, DISKS, UPKEEP].into_iter().flatten()
}
