//! The plan's faults, as they are injected and as they end.

use super::node::{at_place, disk, host_at, host_place, node_id, place, store_id};
use super::records::json;
use super::wires::{network_of, second};
use super::{Cluster, SETTLE, volume_name};
use crate::faults::{Bad, Fault, Lost, Member, Plan, Step};
use amita_reactor::Time;
use amita_reactor::sim::DiskFaults;
use amita_store::format::Geometry;
use amita_store::format::checkpoint::{Item, PageReader};
use amita_store::format::page::LogPage;
use amita_store::format::superblock::{self, Superblock};
use amita_types::{VolumeId, map};
use std::collections::BTreeMap;
use std::time::Duration;

/// So many slots are looked at to find blocks that can rot.
const ROT_SLOTS: u32 = 2000;

/// What ends a fault.
#[derive(Clone, Debug)]
enum End {
    Start(Member),
    /// The end of its log has rotted.
    StartShort(Member),
    Partition(u64),
    Network(Member),
    Hosts(Member),
    Lossy,
    Disk(Member),
    Drain(Member),
    Maintenance(Member),
    Lies(Member),
    Links(u64),
}

/// What is still to be injected, and what is to end.
pub struct Injector {
    plan: Vec<Step>,
    due: BTreeMap<(Time, u64), Due>,
    order: u64,
    /// The directed pairs that each partition cuts.
    partitions: BTreeMap<u64, Vec<(u32, u32)>>,
    /// The same of those that are lossy or late.
    bad_links: BTreeMap<u64, (Vec<(u32, u32)>, Bad)>,
    /// The node whose data rots.
    rotten: Option<Member>,
}

#[derive(Clone, Debug)]
enum Due {
    Inject(Fault),
    End(End),
}

impl Injector {
    /// Everything is still to come.
    pub fn new(plan: Plan) -> Injector {
        Injector {
            plan: plan.steps,
            due: BTreeMap::new(),
            order: 0,
            partitions: BTreeMap::new(),
            bad_links: BTreeMap::new(),
            rotten: None,
        }
    }

    /// Was everything injected, and has it ended?
    pub fn is_done(&self) -> bool {
        self.due.is_empty()
    }

    /// When something is next due.
    pub fn next(&self) -> Option<Time> {
        self.due.keys().next().map(|(at, _)| *at)
    }

    fn push(&mut self, at: Time, due: Due) -> u64 {
        self.order += 1;
        self.due.insert((at, self.order), due);
        self.order
    }
}

impl Cluster {
    /// Injects and ends everything that is due.
    pub(super) fn inject(&mut self, now: Time) {
        let asked = self.workload.asked();
        while self
            .injector
            .plan
            .first()
            .is_some_and(|step| step.after_operations <= asked)
        {
            let step = self.injector.plan.remove(0);
            let at = Time(now.0 + step.delay_ns);
            self.injector.push(at, Due::Inject(step.fault));
        }
        while let Some(entry) = self.injector.due.first_entry()
            && entry.key().0 <= now
        {
            match entry.remove() {
                Due::Inject(fault) => self.inject_one(now, fault),
                Due::End(end) => self.end_one(end),
            }
        }
    }

    fn later(&mut self, now: Time, after_ns: u64, end: End) -> u64 {
        self.injector.push(Time(now.0 + after_ns), Due::End(end))
    }

    pub(super) fn inject_one(&mut self, now: Time, fault: Fault) {
        self.tell(|| format!("injected: {fault:?}"));
        self.injected.push((now, fault.clone()));
        self.ledger.injected(now, &fault);
        match fault {
            Fault::PowerCut { node, for_ns } => self.strike_end(now, node, for_ns, true),
            Fault::CoordinatorPowerCut { for_ns } => {
                if let Some(node) = self.coordinator() {
                    self.strike_end(now, node.0 as usize - 1, for_ns, true);
                }
            }
            Fault::Kill { node, for_ns } => self.strike_end(now, node, for_ns, false),
            Fault::Freeze { node, for_ns } => {
                if self.nodes[node].is_up() {
                    for core in 0..self.nodes[node].cores() {
                        self.freeze(node, core, Duration::from_nanos(for_ns));
                    }
                    self.nodes[node].stand_still_until(Time(now.0 + for_ns));
                }
            }
            Fault::CoreFreeze { node, core, for_ns } => {
                if self.nodes[node].is_up() {
                    let core = core % self.nodes[node].cores();
                    self.freeze(node, core, Duration::from_nanos(for_ns));
                    self.coverage.hit("fault.core_frozen");
                }
            }
            Fault::Suspend { node, for_ns } => {
                // The product's clock counts such times.
                let counts = !self.setup.plants.clock_stands_still;
                self.stand_still(now, node, for_ns, counts);
                self.coverage.hit("fault.suspended");
            }
            Fault::Pause { node, for_ns } => {
                self.stand_still(now, node, for_ns, false);
                self.coverage.hit("fault.paused");
            }
            Fault::HangingDisk {
                node,
                reads,
                writes,
                for_ns,
            } => {
                let disk = self.any_disk(node);
                self.world.disk_faults(disk, |faults| {
                    faults.read_hangs = reads;
                    faults.write_hangs = writes;
                });
                self.later(now, for_ns, End::Disk(node));
                self.coverage.hit("fault.hanging_disk");
            }
            Fault::ReadErrors {
                node,
                per_mille,
                for_ns,
            } => {
                let disk = self.any_disk(node);
                self.world.disk_faults(disk, |faults| faults.read_errors = per_mille);
                self.later(now, for_ns, End::Disk(node));
            }
            Fault::MetadataFull { for_ns } => {
                self.metadata.full_until(Time(now.0 + for_ns));
                self.coverage.hit("fault.metadata_full");
            }
            Fault::Cut { a, b } => self.cut(a, b),
            Fault::Partition {
                side,
                lost,
                metadata,
                for_ns,
            } => {
                let pairs = self.pairs(&side, lost);
                for (from, to) in &pairs {
                    self.world.cut_link(*from, *to);
                }
                if metadata {
                    side.iter()
                        .for_each(|node| self.metadata.cut_off_until(node_id(*node), Time(now.0 + for_ns)));
                }
                let id = self.injector.order + 1;
                self.later(now, for_ns, End::Partition(id));
                self.injector.partitions.insert(id, pairs);
                self.coverage.hit("fault.partition");
            }
            Fault::SlowNetwork { node, extra_ns, for_ns } => {
                self.delay(node, Duration::from_nanos(extra_ns));
                self.later(now, for_ns, End::Network(node));
                self.coverage.hit("fault.slow_network");
            }
            Fault::MetadataAway { for_ns } => {
                self.metadata.away_until(Time(now.0 + for_ns));
                self.coverage.hit("fault.metadata_away");
            }
            Fault::MetadataCutOff { node, for_ns } => {
                self.metadata.cut_off_until(node_id(node), Time(now.0 + for_ns));
                self.coverage.hit("fault.metadata_cut_off");
            }
            Fault::WatchLate { node, for_ns } => {
                self.metadata.watch_late_until(node_id(node), Time(now.0 + for_ns));
                self.coverage.hit("fault.watch_late");
            }
            Fault::Lies { node, for_ns } => {
                self.nodes[node].imposter.set(true);
                self.later(now, for_ns, End::Lies(node));
                self.coverage.hit("fault.lies");
            }
            Fault::MetadataLossy { percent, for_ns } => {
                self.metadata.lose_answers(percent);
                self.later(now, for_ns, End::Lossy);
                self.coverage.hit("fault.metadata_lossy");
            }
            Fault::SlowDisk { node, factor, for_ns } => {
                let disk = self.any_disk(node);
                self.world.disk_faults(disk, |faults| faults.slow_factor = factor);
                self.later(now, for_ns, End::Disk(node));
            }
            Fault::StalledDisk { node, for_ns } => {
                let disk = self.any_disk(node);
                self.world.stall_disk(disk, Duration::from_nanos(for_ns));
            }
            Fault::DiskErrors {
                node,
                per_mille,
                for_ns,
            } => {
                let disk = self.any_disk(node);
                self.world.disk_faults(disk, |faults| {
                    faults.read_errors = per_mille;
                    faults.write_errors = per_mille;
                    faults.flush_errors = per_mille;
                });
                self.later(now, for_ns, End::Disk(node));
            }
            Fault::LyingDisk {
                node,
                per_mille,
                for_ns,
            } => {
                let disk = self.any_disk(node);
                self.world.disk_faults(disk, |faults| faults.lost = per_mille);
                self.later(now, for_ns, End::Disk(node));
            }
            Fault::Rot { node, blocks } => self.rot(now, node, blocks),
            Fault::LostEnd { node, for_ns } => {
                if self.nodes[node].is_up() && self.may_rot(node) {
                    self.end(node, false);
                    self.later(now, for_ns, End::StartShort(node));
                }
            }
            Fault::BadLinks {
                node,
                peers,
                bad,
                way,
                networks,
                for_ns,
            } => {
                let mut pairs = self.pairs_between(&[node], &peers, way);
                pairs.retain(|(from, _)| networks.contains(&network_of(*from)));
                self.spoil(now, pairs, bad, for_ns);
                self.coverage.hit("fault.bad_links");
            }
            Fault::SickNetworks { policy } => self.set_sick_policy(now, policy),
            Fault::HostsCut { gateway } => {
                self.hosts.cut_paths(now, gateway, &mut self.nodes);
                let pairs = self.host_pairs(gateway, Lost::Both, None);
                for connection in self.world.connections() {
                    if pairs.contains(&(connection.from, connection.to)) {
                        self.world.reset(connection.connection);
                    }
                }
                self.coverage.hit("fault.hosts_cut");
            }
            Fault::Drain { node, for_ns } => {
                self.set_duty(now, node, map::StoreDuty::Draining);
                self.later(now, for_ns, End::Drain(node));
                self.coverage.hit("fault.drain");
            }
            Fault::Maintenance { node, for_ns } => {
                self.set_maintenance(now, node, true);
                self.later(now, for_ns, End::Maintenance(node));
                self.coverage.hit("fault.maintenance");
            }
            Fault::HostsApart {
                gateway,
                host,
                lost,
                for_ns,
            } => {
                let pairs = self.host_pairs(gateway, lost, host);
                self.part(now, pairs, for_ns);
                self.coverage.hit("fault.hosts_apart");
            }
            Fault::Isolated {
                gateway,
                lost,
                metadata,
                for_ns,
            } => {
                let mut pairs = self.pairs(&[gateway], lost);
                pairs.extend(self.host_pairs(gateway, lost, None));
                self.part(now, pairs, for_ns);
                if metadata {
                    self.metadata.cut_off_until(node_id(gateway), Time(now.0 + for_ns));
                }
                self.coverage.hit("fault.isolated");
            }
            Fault::HostsSlow {
                gateway,
                extra_ns,
                for_ns,
            } => {
                self.delay_hosts(gateway, Duration::from_nanos(extra_ns));
                self.later(now, for_ns, End::Hosts(gateway));
                self.coverage.hit("fault.hosts_slow");
            }
            Fault::PlannedMove { gateway } => {
                let volume = self.random.below(self.setup.volumes);
                let (id, gateway) = (self.data_of(volume), gateway % self.setup.gateways());
                self.plan_move(now, (id, volume_name(volume)), gateway);
                self.moves_since.insert(volume, now);
            }
            Fault::Move { gateway } => {
                let gateway = gateway % self.setup.gateways();
                if self.nodes[gateway].is_up() {
                    let only = self.random.below(2 * self.setup.volumes);
                    // All volumes, or one.
                    for volume in (0..self.setup.volumes).filter(|volume| only >= self.setup.volumes || only == *volume)
                    {
                        self.hosts.move_to(now, volume, gateway);
                    }
                }
            }
        }
    }

    /// The operator changes what the node's stores are for.
    fn set_duty(&mut self, now: Time, node: Member, duty: map::StoreDuty) {
        for store in 0..self.setup.stores {
            let key = map::store_key(store_id(node, store));
            let record = self.metadata.state().get(&key).map(|value| value.json::<map::Store>());
            if let Some(Ok(record)) = record {
                let record = map::Store { duty, ..record };
                self.metadata
                    .operate(now, &amita_metadata::Call::put(key, json(&record)));
            }
        }
    }

    /// The operator says whether somebody works on the node.
    fn set_maintenance(&mut self, now: Time, node: Member, maintenance: bool) {
        let key = map::node_key(&format!("node-{}", node + 1));
        let record = self.metadata.state().get(&key).map(|value| value.json::<map::Node>());
        if let Some(Ok(record)) = record {
            let record = map::Node { maintenance, ..record };
            self.metadata
                .operate(now, &amita_metadata::Call::put(key, json(&record)));
        }
    }

    /// All cores of a node stand still; its clock goes on, or does not.
    fn stand_still(&mut self, now: Time, node: Member, for_ns: u64, counts: bool) {
        if !self.nodes[node].is_up() {
            return;
        }
        let length = Duration::from_nanos(for_ns);
        for core in 0..self.nodes[node].cores() {
            if counts {
                self.freeze(node, core, length);
            } else {
                for at in self.interfaces(node, core) {
                    self.world.suspend(at, length);
                }
            }
        }
        self.nodes[node].stand_still_until(Time(now.0 + for_ns));
    }

    /// The places of a core: one for each network.
    fn interfaces(&self, node: Member, core: usize) -> Vec<u32> {
        let at = place(node, core);
        [at].into_iter()
            .chain(self.setup.has_second().then(|| second(at)))
            .collect()
    }

    fn freeze(&mut self, node: Member, core: usize, length: Duration) {
        for at in self.interfaces(node, core) {
            self.world.freeze(at, length);
        }
    }

    /// Who has connections by pairs of places loses them.
    fn break_links(&mut self, pairs: &[(u32, u32)]) {
        for connection in self.world.connections() {
            let (from, to) = (connection.from, connection.to);
            if pairs.contains(&(from, to)) || pairs.contains(&(to, from)) {
                self.world.reset(connection.connection);
            }
        }
    }

    /// Cuts directed pairs of places, for a while.
    fn part(&mut self, now: Time, pairs: Vec<(u32, u32)>, for_ns: u64) {
        for (from, to) in &pairs {
            self.world.cut_link(*from, *to);
        }
        let id = self.injector.order + 1;
        self.later(now, for_ns, End::Partition(id));
        self.injector.partitions.insert(id, pairs);
    }

    /// Links are bad for a while.
    fn spoil(&mut self, now: Time, pairs: Vec<(u32, u32)>, bad: Bad, for_ns: u64) {
        if bad == Bad::Cut {
            return self.part(now, pairs, for_ns);
        }
        if bad == Bad::Refused {
            self.break_links(&pairs);
        }
        let id = self.injector.order + 1;
        self.later(now, for_ns, End::Links(id));
        self.injector.bad_links.insert(id, (pairs, bad));
        self.spoil_links();
    }

    /// All links that are lossy or late now are so.
    fn spoil_links(&mut self) {
        for (pairs, bad) in self.injector.bad_links.values() {
            for (from, to) in pairs {
                match *bad {
                    Bad::Lossy { per_mille } => self.world.lose_link(*from, *to, per_mille),
                    Bad::Late { extra_ns } => self.world.delay_link(*from, *to, Duration::from_nanos(extra_ns)),
                    Bad::Refused => self.nodes[at_place(*from).0].firewall.refuse(*from, *to),
                    Bad::Cut => {}
                }
            }
        }
    }

    /// The directed pairs of places between a gateway and hosts; of one host, if there is one of that number.
    fn host_pairs(&self, gateway: Member, lost: Lost, host: Option<u32>) -> Vec<(u32, u32)> {
        let mut pairs = Vec::new();
        let clients = self.setup.profile.clients;
        let host = host.map(|host| host % clients);
        let hosts =
            (0..clients).filter(|number| self.setup.fronted.is_some() && host.is_none_or(|host| host == *number));
        for number in hosts {
            debug_assert_eq!(host_at(host_place(number)), Some(number));
            for core in 0..self.setup.cores[gateway] {
                let (here, there) = (place(gateway, core), host_place(number));
                if lost != Lost::Incoming {
                    pairs.push((here, there));
                }
                if lost != Lost::Outgoing {
                    pairs.push((there, here));
                }
            }
        }
        pairs
    }

    fn delay_hosts(&mut self, gateway: Member, delay: Duration) {
        for (from, to) in self.host_pairs(gateway, Lost::Both, None) {
            self.world.delay_link(from, to, delay);
        }
    }

    /// The operator wants a volume to be owned by another gateway.
    pub(super) fn plan_move(&mut self, now: Time, (id, name): (VolumeId, String), gateway: Member) {
        self.moves_planned += 1;
        let wish = map::Move {
            volume: name,
            to: node_id(gateway),
            number: self.moves_planned,
            refused: None,
        };
        let key = map::move_key(id);
        self.metadata.operate(now, &amita_metadata::Call::put(key, json(&wish)));
        self.coverage.hit("fault.planned_move");
    }

    /// The operator's wishes that have not come true.
    pub(super) fn moves_left(&mut self) -> usize {
        let state = self.metadata.state();
        let data = |volume: u64| self.migrations.last_of(volume);
        self.moves_since.retain(|volume, _| {
            let is_there = state.get(&map::move_key(data(*volume))).is_some();
            if !is_there {
                self.coverage.hit("move.came_true");
            }
            is_there
        });
        self.moves_since.len()
    }

    /// One of the node's disks.
    fn any_disk(&mut self, node: Member) -> String {
        disk(node, self.random.below(self.setup.stores as u64) as usize)
    }

    fn strike_end(&mut self, now: Time, node: Member, for_ns: u64, power_cut: bool) {
        if self.nodes[node].is_up() {
            self.end(node, power_cut);
            self.later(now, for_ns, End::Start(node));
        }
    }

    fn end_one(&mut self, end: End) {
        self.tell(|| format!("ends: {end:?}"));
        match end {
            End::Start(node) => {
                if !self.nodes[node].is_up() {
                    self.start(node);
                }
            }
            End::StartShort(node) => {
                if !self.nodes[node].is_up() {
                    self.lose_end(self.world.now(), node);
                    self.start(node);
                }
            }
            End::Partition(id) => {
                let Some(pairs) = self.injector.partitions.remove(&id) else {
                    return;
                };
                for (from, to) in pairs {
                    self.world.heal(from, to);
                }
                // Healing a pair heals both directions; what another partition still cuts is cut again.
                for (from, to) in self.injector.partitions.values().flatten() {
                    self.world.cut_link(*from, *to);
                }
                self.keep_apart();
            }
            End::Network(node) => self.delay(node, Duration::ZERO),
            End::Drain(node) => self.set_duty(self.world.now(), node, map::StoreDuty::Normal),
            End::Maintenance(node) => self.set_maintenance(self.world.now(), node, false),
            End::Hosts(node) => self.delay_hosts(node, Duration::ZERO),
            End::Lies(node) => self.nodes[node].imposter.set(false),
            End::Links(id) => {
                let ended = self.injector.bad_links.remove(&id);
                for (from, to) in ended.map(|(pairs, _)| pairs).unwrap_or_default() {
                    self.world.lose_link(from, to, 0);
                    self.world.delay_link(from, to, Duration::ZERO);
                    self.nodes[at_place(from).0].firewall.pass(from, to);
                }
                // What is bad for another reason as well stays so.
                self.spoil_links();
            }
            End::Lossy => self.metadata.lose_answers(0),
            End::Disk(node) => {
                for store in 0..self.setup.stores {
                    self.world
                        .disk_faults(disk(node, store), |faults| *faults = DiskFaults::default());
                }
            }
        }
    }

    /// Every fault ends now, and none is left to be injected.
    pub(super) fn end_faults(&mut self) {
        self.injector.plan.clear();
        for due in std::mem::take(&mut self.injector.due).into_values() {
            if let Due::End(end) = due {
                self.end_one(end);
            }
        }
        self.metadata.heal();
    }

    /// A node that stands still does so to its end, whatever heals. Of what is waited for from now on at least half of the time is to be one in which
    /// all run: minutes, as in a long life, are waited for here.
    pub(super) fn let_all_go_on(&mut self) -> Result<(), String> {
        let all_run = self
            .nodes
            .iter()
            .map(|node| node.frozen_until)
            .max()
            .unwrap_or_default();
        if all_run <= self.world.now().plus(SETTLE / 2) {
            return Ok(());
        }
        self.coverage.hit("run.stood_still_beyond_the_work");
        while self.world.now() < all_run {
            self.step(all_run)?;
        }
        self.tell(|| "every node runs".to_owned());
        Ok(())
    }

    /// What lasts for the whole run.
    pub(super) fn keep_apart(&mut self) {
        for (from, to) in self.setup.apart.clone() {
            self.ledger.parted(from, to);
            for (from, to) in self.places(from, to) {
                self.world.cut_link(from, to);
            }
        }
    }

    /// The directed pairs of places that a partition loses.
    fn pairs(&self, side: &[Member], lost: Lost) -> Vec<(u32, u32)> {
        let others: Vec<Member> = (0..self.nodes.len()).filter(|node| !side.contains(node)).collect();
        self.pairs_between(side, &others, lost)
    }

    fn pairs_between(&self, side: &[Member], others: &[Member], lost: Lost) -> Vec<(u32, u32)> {
        let mut pairs = Vec::new();
        for &inside in side {
            for &outside in others {
                for (a, b) in self.places(inside, outside) {
                    if lost != Lost::Incoming {
                        pairs.push((a, b));
                    }
                    if lost != Lost::Outgoing {
                        pairs.push((b, a));
                    }
                }
            }
        }
        pairs
    }

    fn places(&self, one: Member, other: Member) -> Vec<(u32, u32)> {
        let cores = &self.setup.cores;
        (0..cores[one])
            .flat_map(|a| (0..cores[other]).map(move |b| (place(one, a), place(other, b))))
            .flat_map(|(a, b)| {
                let beside = self.setup.has_second().then(|| (second(a), second(b)));
                [(a, b)].into_iter().chain(beside)
            })
            .collect()
    }

    fn delay(&mut self, node: Member, delay: Duration) {
        for other in (0..self.nodes.len()).filter(|other| *other != node) {
            for (a, b) in self.places(node, other) {
                self.world.delay_link(a, b, delay);
                self.world.delay_link(b, a, delay);
            }
        }
    }

    fn cut(&mut self, one: Member, other: Member) {
        let places = self.places(one, other);
        for connection in self.world.connections() {
            let (a, b) = (connection.from, connection.to);
            if places.contains(&(a, b)) || places.contains(&(b, a)) {
                self.world.reset(connection.connection);
            }
        }
    }

    /// Flips a bit of a page of the log that no mark says to be durable, nor a later mount, nor a checkpoint: the store takes that for the end.
    fn lose_end(&mut self, now: Time, node: Member) {
        let geometry = self.geometry();
        let place = self.random.below(self.setup.stores as u64) as usize;
        let (disk, store) = (disk(node, place), store_id(node, place));
        let mut page = vec![0; amita_types::BLOCK_BYTES as usize];
        let mut mark = 0;
        for offset in superblock::OFFSETS {
            self.world.read_disk(&disk, offset, &mut page);
            let Ok(Superblock {
                mount_start,
                checkpoint,
                ..
            }) = Superblock::decode(&page)
            else {
                continue;
            };
            mark = mark.max(mount_start);
            let area = geometry.checkpoint_offsets[checkpoint.area as usize];
            for index in 0..checkpoint.pages {
                self.world.read_disk(&disk, area + index * page.len() as u64, &mut page);
                // Of the older superblock: it may have been written over.
                let Ok(items) = PageReader::new(&page, store, checkpoint.id, index) else {
                    break;
                };
                for item in items {
                    if let Ok(Item::Slots { position, .. }) = item {
                        mark = mark.max(position);
                    }
                }
            }
        }
        let mut pages = Vec::new();
        for number in 0..geometry.log_pages {
            let offset = geometry.log_page_offset(number);
            self.world.read_disk(&disk, offset, &mut page);
            if let Some(found) = LogPage::decode(&page, store) {
                mark = mark.max(found.header.mark);
                pages.push((found.header.sequence, offset));
            }
        }
        pages.retain(|(sequence, _)| *sequence >= mark);
        self.tell(|| format!("{} pages of the log of {disk} are not marked", pages.len()));
        if pages.is_empty() {
            return;
        }
        let offset = self.random.pick(&pages).1 + self.random.below(u64::from(amita_types::BLOCK_BYTES));
        self.world.flip_bit(&disk, offset, self.random.below(8) as u8);
        self.ledger.rotted(now, node);
        self.coverage.hit("fault.lost_end");
    }

    fn geometry(&self) -> Geometry {
        Geometry::divide(self.setup.store_bytes, Some(self.setup.log_bytes)).expect("it was formatted so")
    }

    /// One node's data rots in a run, and only where others have what it holds.
    fn may_rot(&mut self, node: Member) -> bool {
        self.setup.min_copies >= 2 && *self.injector.rotten.get_or_insert(node) == node
    }

    /// Flips a bit in some blocks that the node's store holds. One node's data rots in a run, and only where another
    /// copy is always left: the last copy of what was written just before a power cut is not told from a torn write.
    fn rot(&mut self, now: Time, node: Member, blocks: u64) {
        if !self.may_rot(node) {
            return;
        }
        let geometry = self.geometry();
        let mut used = Vec::new();
        let mut head = [0; 8];
        let leaf = amita_store::format::leaf::MAGIC.to_le_bytes();
        let disk = self.any_disk(node);
        // The first slots are used first, and a run does not get far.
        for slot in 0..geometry.slots.min(ROT_SLOTS) {
            let offset = geometry.slot_offset(amita_store::format::Slot(slot));
            self.world.read_disk(&disk, offset, &mut head);
            // Pages of the index are not replaced where they lie.
            let is_spared = self.setup.scrubbed_last && head.starts_with(&leaf);
            if head != [0; 8] && !is_spared {
                used.push(offset);
            }
        }
        self.tell(|| format!("{} slots of {disk} hold data", used.len()));
        for _ in 0..blocks.min(used.len() as u64) {
            let offset = *self.random.pick(&used) + self.random.below(u64::from(amita_types::BLOCK_BYTES));
            let bit = self.random.below(8) as u8;
            self.world.flip_bit(&disk, offset, bit);
            self.ledger.rotted(now, node);
        }
    }
}
