//! What goes wrong in a run, drawn from its seed, and how a run ends.

use super::client::{Ask, CELLS};
use super::gateways::add;
use super::world::{BLOCKS, CHUNKS, Event, GATEWAYS, GROUPS, MS, STORES, World, store_id, volume_id};
use crate::{Counters, Faults};
use amita_types::{ChunkId, ChunkIndex};

/// What a run is like.
#[derive(Clone, Debug)]
pub struct Profile {
    pub name: &'static str,
    pub copies: usize,
    pub min_copies: usize,
    pub cores: usize,
    /// Volumes of the pool.
    pub volumes: usize,
    /// A coordinator brings stores back.
    pub resync: bool,
    /// One store has little room, until the end.
    pub full_store: bool,
    pub capacity: u64,
    pub busy_percent: u64,
    /// How often one of the stores finds a block damaged, or sends one that is.
    pub damage_percent: u64,
    pub read_percent: u64,
    /// Volumes are encrypted.
    pub encrypted: bool,
    /// Reads and writes that are not of whole blocks.
    pub partial_percent: u64,
    /// I/O that goes to one chunk.
    pub hot_percent: u64,
    /// Writes and clears of the block that is cleared at times.
    pub spare_percent: u64,
    pub think_ns: u64,
    pub length_ns: u64,
    pub meta_fails_percent: u64,
    pub meta_unknown_percent: u64,
    /// How many of each fault.
    pub cuts: u64,
    pub crashes: u64,
    pub forgets: u64,
    pub takeovers: u64,
    pub kills: u64,
    pub outages: u64,
    pub splits: u64,
    pub spikes: u64,
    pub freezes: u64,
    pub moves: u64,
    pub evictions: u64,
    /// Stores that stay away at the end, as far as that is lawful.
    pub dead_at_end: bool,
    /// A store that refuses a write for its predecessor, or for space, tells of a fault of the sequencer.
    pub strict: bool,
}

impl Profile {
    pub fn calm() -> Profile {
        Profile {
            name: "calm",
            copies: 3,
            min_copies: 2,
            cores: 1,
            volumes: 1,
            resync: false,
            full_store: false,
            capacity: 1_000_000,
            busy_percent: 0,
            damage_percent: 0,
            read_percent: 50,
            encrypted: false,
            partial_percent: 0,
            hot_percent: 0,
            spare_percent: 4,
            think_ns: 2 * MS,
            length_ns: 300 * MS,
            meta_fails_percent: 0,
            meta_unknown_percent: 0,
            cuts: 0,
            crashes: 0,
            forgets: 0,
            takeovers: 0,
            kills: 0,
            outages: 0,
            splits: 0,
            spikes: 0,
            freezes: 0,
            moves: 0,
            evictions: 0,
            dead_at_end: false,
            strict: false,
        }
    }

    /// A bit of everything.
    pub fn wild(seed: u64) -> Profile {
        Profile {
            name: "wild",
            copies: 2 + (seed % 2) as usize,
            min_copies: 1 + (seed / 2 % 2) as usize,
            cores: 1 + (seed / 4 % 2) as usize,
            busy_percent: if seed.is_multiple_of(5) { 2 } else { 0 },
            damage_percent: seed % 3,
            meta_fails_percent: 5,
            meta_unknown_percent: 8,
            length_ns: 700 * MS,
            cuts: 5,
            crashes: 2,
            takeovers: 3,
            kills: 2,
            outages: 1,
            splits: seed % 2,
            spikes: 2,
            dead_at_end: true,
            ..Profile::calm()
        }
    }

    /// Links that break, and nothing else.
    pub fn links() -> Profile {
        Profile {
            name: "links",
            cuts: 12,
            read_percent: 20,
            think_ns: MS,
            strict: true,
            ..Profile::calm()
        }
    }

    /// Stores that are nearly full.
    pub fn tight() -> Profile {
        Profile {
            name: "tight",
            capacity: 24,
            read_percent: 10,
            think_ns: MS,
            strict: true,
            ..Profile::calm()
        }
    }

    /// A gateway that is cut off together with some stores, while another takes over.
    pub fn split(seed: u64) -> Profile {
        Profile {
            name: "split",
            copies: 3,
            min_copies: 1 + (seed % 2) as usize,
            splits: 3,
            length_ns: 900 * MS,
            read_percent: 75,
            dead_at_end: true,
            ..Profile::calm()
        }
    }

    /// Owners that die one after the other, with stores that lag.
    pub fn deaths(seed: u64) -> Profile {
        Profile {
            name: "deaths",
            min_copies: 1 + (seed % 2) as usize,
            read_percent: 30,
            think_ns: MS / 2,
            cuts: 10,
            crashes: 1,
            takeovers: 6,
            kills: 6,
            length_ns: 600 * MS,
            dead_at_end: true,
            ..Profile::calm()
        }
    }

    /// Writes that reach one store long before the others, and owners and stores that die with them.
    pub fn laggards(_seed: u64) -> Profile {
        Profile {
            name: "laggards",
            min_copies: 1,
            read_percent: 65,
            think_ns: MS / 2,
            length_ns: 400 * MS,
            spikes: 12,
            kills: 5,
            crashes: 3,
            dead_at_end: true,
            ..Profile::calm()
        }
    }

    /// Stores that leave and come back, and little else: what travels is what differs.
    pub fn back(seed: u64) -> Profile {
        Profile {
            name: "back",
            copies: 2 + (seed % 2) as usize,
            min_copies: 1,
            cores: 1 + (seed / 2 % 2) as usize,
            volumes: 1 + (seed / 4 % 2) as usize,
            resync: true,
            partial_percent: 40,
            spare_percent: 8,
            read_percent: 40,
            think_ns: MS,
            length_ns: 400 * MS,
            evictions: 4,
            moves: 1,
            cuts: 2,
            crashes: 1,
            dead_at_end: true,
            ..Profile::calm()
        }
    }

    /// Everything that can go wrong, while stores are brought up to date.
    pub fn resync(seed: u64) -> Profile {
        Profile {
            name: "resync",
            volumes: 1 + (seed / 8 % 2) as usize,
            resync: true,
            partial_percent: 40,
            spare_percent: 10,
            read_percent: 40,
            hot_percent: if seed.is_multiple_of(3) { 60 } else { 0 },
            full_store: seed % 16 == 5,
            think_ns: if seed.is_multiple_of(7) { MS / 4 } else { MS },
            evictions: 5,
            moves: 2,
            freezes: 2,
            crashes: 4,
            ..Profile::wild(seed)
        }
    }

    /// Owners that follow one another while stores are brought up to date.
    pub fn relay(seed: u64) -> Profile {
        Profile {
            name: "relay",
            volumes: 1 + (seed / 2 % 2) as usize,
            cores: 1 + (seed / 4 % 2) as usize,
            copies: 3,
            min_copies: 1 + (seed % 2) as usize,
            resync: true,
            partial_percent: 40,
            spare_percent: 10,
            read_percent: 30,
            hot_percent: 30,
            think_ns: MS / 2,
            cuts: 6,
            crashes: 3,
            spikes: 4,
            freezes: 2,
            takeovers: 10,
            kills: 5,
            evictions: 6,
            length_ns: 600 * MS,
            dead_at_end: true,
            ..Profile::calm()
        }
    }

    /// Gateways that are cut off with some stores, while others bring stores back.
    pub fn apart(seed: u64) -> Profile {
        Profile {
            name: "apart",
            copies: 2 + (seed % 2) as usize,
            min_copies: 1,
            resync: true,
            splits: 4,
            evictions: 6,
            kills: 1,
            length_ns: 900 * MS,
            read_percent: 75,
            dead_at_end: true,
            ..Profile::calm()
        }
    }

    /// A chunk that is written all the time while a store is brought up to date.
    pub fn hot(seed: u64) -> Profile {
        Profile {
            name: "hot",
            copies: 2 + (seed % 2) as usize,
            min_copies: 1,
            resync: true,
            partial_percent: 50,
            read_percent: 5,
            hot_percent: 95,
            think_ns: MS / 20,
            length_ns: 250 * MS,
            evictions: 5,
            spikes: 3,
            dead_at_end: true,
            ..Profile::calm()
        }
    }

    /// Encrypted volumes, with everything that can go wrong.
    pub fn sealed(seed: u64) -> Profile {
        Profile {
            name: "sealed",
            encrypted: true,
            copies: 2 + (seed % 2) as usize,
            partial_percent: 50,
            cuts: 8,
            ..Profile::resync(seed)
        }
    }

    /// One store that loses what it had.
    pub fn amnesia() -> Profile {
        Profile {
            name: "amnesia",
            min_copies: 1,
            forgets: 1,
            read_percent: 80,
            ..Profile::calm()
        }
    }

    /// The same, and it cannot be spared.
    pub fn amnesia_at_the_least() -> Profile {
        Profile {
            name: "amnesia_at_the_least",
            copies: 2,
            min_copies: 2,
            read_percent: 20,
            ..Profile::amnesia()
        }
    }

    /// The same, and the other store is out of reach now and then: what is read meanwhile only one has that is in doubt.
    pub fn doubt() -> Profile {
        Profile {
            name: "doubt",
            read_percent: 70,
            partial_percent: 30,
            cuts: 12,
            length_ns: 400 * MS,
            ..Profile::amnesia_at_the_least()
        }
    }
}

/// What a run that went well has seen.
pub struct Report {
    pub counters: Counters,
    pub seen: super::world::Seen,
    pub steps: usize,
}

/// Plays a seed.
pub fn run(seed: u64, profile: Profile, planted: Faults) -> Result<Report, String> {
    let mut world = World::new(seed, profile, planted);
    world.plan();
    let end = world.now + world.profile.length_ns;
    world.run_until(end);
    world.settle();
    for gateway in 0..GATEWAYS {
        for (sequencer, _) in std::mem::take(&mut world.gateways[gateway].cores) {
            add(&mut world.counters, sequencer.counters());
        }
    }
    if let Some(why) = world.failure {
        return Err(why);
    }
    world.clock.check()?;
    Ok(Report {
        counters: world.counters,
        seen: world.seen,
        steps: world.clock.history.values().map(Vec::len).sum(),
    })
}

impl World {
    fn plan(&mut self) {
        let profile = self.profile.clone();
        for volume in 0..profile.volumes {
            let gateway = volume;
            self.after(0, Event::Open { gateway, volume });
        }
        if profile.resync {
            self.after(0, Event::Look);
        }
        let length = profile.length_ns;
        for _ in 0..profile.cuts {
            let (gateway, store) = (self.gateway(), self.store());
            let ns = if self.random.percent(70) {
                self.random.below(10 * MS)
            } else {
                self.random.below(250 * MS)
            };
            let at = self.random.below(length);
            self.after(at, Event::Cut { gateway, store, ns });
        }
        for _ in 0..profile.crashes {
            let store = self.store();
            let ns = self.random.below(300 * MS);
            let at = self.random.below(length);
            self.after(
                at,
                Event::Crash {
                    store,
                    ns,
                    forgets: false,
                },
            );
        }
        for _ in 0..profile.forgets {
            let store = self.store();
            let ns = self.random.below(20 * MS);
            let at = self.random.within(length / 4, length / 2);
            self.after(
                at,
                Event::Crash {
                    store,
                    ns,
                    forgets: true,
                },
            );
        }
        for _ in 0..profile.takeovers {
            let gateway = self.gateway();
            let at = self.random.below(length);
            let volume = self.volume_any();
            self.after(at, Event::Open { gateway, volume });
            if self.random.percent(30) {
                let gateway = self.gateway();
                self.after(at + 100_000, Event::Open { gateway, volume });
            }
        }
        for _ in 0..profile.kills {
            let gateway = self.gateway();
            let at = self.random.below(length);
            self.after(at, Event::Kill { gateway });
            let after = at + self.random.below(40 * MS);
            let gateway = self.gateway();
            for volume in 0..profile.volumes {
                self.after(after, Event::Open { gateway, volume });
            }
        }
        for _ in 0..profile.outages {
            let gateway = self.gateway();
            let ns = self.random.below(200 * MS);
            let at = self.random.below(length);
            self.after(at, Event::MetaOut { gateway, ns });
        }
        for _ in 0..profile.spikes {
            let (gateway, store) = (self.gateway(), self.store());
            let ns = self.random.below(60 * MS);
            let at = self.random.below(length);
            self.after(at, Event::Spike { gateway, store, ns });
        }
        for _ in 0..profile.freezes {
            let gateway = self.random.percent(60).then(|| self.gateway());
            let store = self.store();
            let ns = self.random.below(250 * MS);
            let at = self.random.below(length);
            self.after(at, Event::Freeze { gateway, store, ns });
        }
        for _ in 0..profile.evictions {
            let at = self.random.below(length);
            self.after(at, Event::Evict);
        }
        for _ in 0..profile.moves {
            let at = self.random.below(length);
            self.after(at, Event::Move);
        }
        for turn in 0..profile.splits {
            // In turns, so that whoever owns the volume is cut off.
            let gateway = (turn as usize) % GATEWAYS;
            let other = (gateway + 1) % GATEWAYS;
            let mask = self.random.within(1, (1 << STORES) - 2);
            let ns = self.random.within(100 * MS, 280 * MS);
            let at = length / profile.splits * turn + self.random.within(20 * MS, 60 * MS);
            self.after(
                at,
                Event::Split {
                    gateway,
                    other,
                    mask,
                    ns,
                },
            );
        }
    }

    fn gateway(&mut self) -> usize {
        self.random.below(GATEWAYS as u64) as usize
    }

    fn volume_any(&mut self) -> usize {
        match self.profile.volumes {
            1 => 0,
            volumes => self.random.below(volumes as u64) as usize,
        }
    }

    fn store(&mut self) -> usize {
        self.random.below(STORES as u64) as usize
    }

    /// Everything heals; what is under way ends; then all gateways die, and as many stores as may, and what the
    /// survivors hold is read through a new owner.
    fn settle(&mut self) {
        if self.failure.is_some() {
            return;
        }
        self.settling = true;
        let mut idle = false;
        for _ in 0..40 {
            self.heal(&[]);
            self.run_until(self.now + 100 * MS);
            idle = self.gateways.iter().all(|gateway| gateway.client.is_idle());
            if idle || self.failure.is_some() {
                break;
            }
        }
        if self.failure.is_none() && !idle {
            self.fail("all is well again, and some I/O never ends".to_owned());
        }
        self.wait_for_all();
        if self.failure.is_some() {
            return;
        }
        for gateway in 0..GATEWAYS {
            self.kill(gateway);
        }
        // Calls whose makers are dead may still be done.
        self.run_until(self.now + 100 * MS);
        let dead = self.choose_dead();
        self.dead.clone_from(&dead);
        for &store in &dead {
            if self.stores[store].up {
                let random = &mut self.random;
                self.stores[store].crash(random);
            }
            for gateway in 0..GATEWAYS {
                self.gateways[gateway].links[store].link = 0;
                self.gateways[gateway].links[store].seen = 0;
            }
        }
        self.heal(&dead);
        self.run_until(self.now + 10 * MS);
        self.heal(&dead);
        for turn in 0..3 {
            // The last owner's leases are in the way for a moment; the second and third read settle nothing new.
            let reader = (turn + 1) % GATEWAYS;
            for gateway in 0..GATEWAYS {
                if gateway != reader {
                    self.kill(gateway);
                }
            }
            self.run_until(self.now + 2 * MS);
            self.heal(&dead);
            self.read_everything(reader);
            if self.failure.is_some() {
                return;
            }
        }
        self.compare(&dead);
        if self.profile.strict {
            let wrong: u64 = self.stores.iter().map(|store| store.wrong_predecessors).sum();
            let no_space: u64 = self.stores.iter().map(|store| store.no_space).sum();
            if wrong > 0 {
                self.fail(format!("{wrong} writes were sent without the one before them (R1, R8)"));
            }
            if no_space > 0 {
                self.fail(format!("{no_space} writes got a version and found no space (R7)"));
            }
        }
    }

    /// Faults have stopped: in bounded time all members are in sync again, and hold the same.
    fn wait_for_all(&mut self) {
        if !self.profile.resync {
            return;
        }
        for _ in 0..80 {
            if self.failure.is_some() || self.all_in_sync() {
                break;
            }
            self.heal(&[]);
            self.run_until(self.now + 100 * MS);
        }
        if self.failure.is_none() && !self.all_in_sync() {
            let groups: Vec<_> = (0..GROUPS).map(|index| self.group(index)).collect();
            self.fail(format!(
                "all is well again, and some member is never brought up to date: {groups:?}"
            ));
        }
        // Chunks that the last owner has not touched may still differ by what nobody was ever told. A takeover that was
        // under way makes another owner the last one.
        let volumes = 0..self.profile.volumes;
        let owners = |world: &World| -> Vec<_> {
            volumes
                .clone()
                .map(|volume| (world.owner(volume), world.volume(volume).generation))
                .collect()
        };
        let mut open = false;
        for _ in 0..5 {
            let before = owners(self);
            for (volume, chunk) in volumes
                .clone()
                .flat_map(|volume| (0..CHUNKS).map(move |chunk| (volume, chunk)))
            {
                if let Some(gateway) = before[volume].0 {
                    self.submit((gateway, volume, chunk), 0, CELLS, Ask::Read);
                }
            }
            self.run_until(self.now + 300 * MS);
            open = before == owners(self) && before.iter().all(|(owner, _)| owner.is_some());
            if open || self.failure.is_some() {
                break;
            }
        }
        if self.all_in_sync() && open {
            self.compare(&[]);
        }
        self.seen.useless = self.stores.iter().map(|store| store.useless).sum();
        if self.failure.is_none() && self.seen.useless > 0 {
            self.fail(format!("{} blocks travelled that did not differ", self.seen.useless));
        }
    }

    fn heal(&mut self, dead: &[usize]) {
        for store in (0..STORES).filter(|store| !dead.contains(store)) {
            self.stores[store].busy_percent = 0;
            self.stores[store].damage_percent = 0;
            if self.profile.full_store {
                self.stores[store].capacity = self.profile.capacity;
            }
            self.restart(store);
            for gateway in 0..GATEWAYS {
                self.gateways[gateway].links[store].blocked_until = 0;
                self.after(0, Event::LinkUp { gateway, store });
            }
        }
        for gateway in &mut self.gateways {
            gateway.meta_out_until = 0;
        }
    }

    /// Stores that can be lost for ever without losing anything acknowledged.
    fn choose_dead(&mut self) -> Vec<usize> {
        let mut dead = Vec::new();
        if !self.profile.dead_at_end {
            return dead;
        }
        for _ in 0..STORES {
            let store = self.store();
            let lawful = (0..GROUPS).all(|index| {
                let in_sync = self.group(index).in_sync;
                let left = in_sync
                    .iter()
                    .filter(|&&id| id != store_id(store) && !dead.iter().any(|&other| id == store_id(other)));
                left.count() >= self.profile.min_copies
            });
            if lawful && !dead.contains(&store) {
                dead.push(store);
            }
        }
        dead
    }

    fn read_everything(&mut self, reader: usize) {
        let volumes = self.profile.volumes;
        let all = |world: &World| (0..volumes).all(|volume| world.is_open(reader, volume));
        for _ in 0..60 {
            for volume in 0..volumes {
                if !self.is_open(reader, volume) {
                    self.open(reader, volume);
                }
            }
            self.run_until(self.now + 50 * MS);
            if all(self) || self.failure.is_some() {
                break;
            }
        }
        if self.failure.is_none() && !all(self) {
            return self.fail("all is well again, and the volume cannot be opened".to_owned());
        }
        for (volume, chunk) in (0..volumes).flat_map(|volume| (0..CHUNKS).map(move |chunk| (volume, chunk))) {
            if self.failure.is_some() {
                return;
            }
            for block in 0..BLOCKS - 1 {
                self.submit((reader, volume, chunk), block * CELLS, CELLS, Ask::Read);
            }
        }
        for _ in 0..40 {
            if self.gateways[reader].client.is_idle() || self.failure.is_some() {
                break;
            }
            self.run_until(self.now + 50 * MS);
        }
        if self.failure.is_none() && !self.gateways[reader].client.is_idle() {
            self.fail("all is well again, and the volume cannot be read".to_owned());
        }
    }

    /// When all is quiet, every in-sync member holds the same.
    fn compare(&mut self, dead: &[usize]) {
        self.run_until(self.now + 200 * MS);
        let volumes = 0..self.profile.volumes;
        for (volume, chunk) in volumes.flat_map(|volume| (0..CHUNKS).map(move |chunk| (volume, chunk))) {
            let id = ChunkId {
                volume: volume_id(volume),
                index: ChunkIndex(chunk),
            };
            let group = self.group(id.group(GROUPS).0);
            let members: Vec<usize> = (0..STORES)
                .filter(|&store| group.in_sync.contains(&store_id(store)))
                .collect();
            if let Some(&gone) = members.iter().find(|store| dead.contains(store)) {
                self.fail(format!("store {gone} is dead and still in sync"));
                return;
            }
            let first = self.stores[members[0]].content((id.volume, chunk));
            for &store in &members[1..] {
                let other = self.stores[store].content((id.volume, chunk));
                if other != first {
                    self.fail(format!(
                        "chunk {chunk}: stores {} and {store} differ: {first:?} and {other:?}",
                        members[0]
                    ));
                    return;
                }
            }
            if members.iter().any(|&store| self.stores[store].has_pending()) {
                self.fail("all is quiet, and a store has something pending".to_owned());
            }
        }
    }
}
