//! One store on its own: the rules of the disk (D1 to D6, and what R1, R4, R5, R6 and R8 ask of a store).
//!
//! A player takes the sequencer's part: it writes, clears and reads a few chunks, many at once, fences with newer
//! generations, sends things again, and cuts the power or kills the process at any moment. After each start the store
//! must hold, chunk by chunk, *a prefix of what was sent to it, not shorter than what it acknowledged*: the contents of
//! every block exactly as that prefix leaves them. See [`player`] for the checks one by one.

mod line;
pub mod player;
pub mod service;

use crate::campaign::Run;
use crate::coverage::Coverage;
use crate::random::Random;
use amita_reactor::Time;
use amita_reactor::sim::{Backing, DiskConfig, SimConfig, SimDriver, World};
use amita_store::format::page::LogPage;
use amita_store::{Counters, Discard, FormatParams, State};
use amita_types::{ClusterId, StoreId};
use player::Player;
use service::StoreService;
use std::path::Path;
use std::time::Duration;

const NODE: u32 = 1;
const DISK: &str = "disk";
const STORE: StoreId = StoreId(0x5107_e000_0000_0000_0000_0000_0000_0001);
const CLUSTER: ClusterId = ClusterId(0xc105_7e50_0000_0000_0000_0000_0000_0001);
/// Nothing may take longer than this in virtual time: a mount, a fence that waits for a lease, a write.
const PATIENCE: Duration = Duration::from_secs(30);
/// One run of so many has large chunks.
const WIDE_ONE_IN: u64 = 10;
/// After so many passes of the store everything in it is looked at; its sums are after every one.
const LOOK_EVERY: u64 = 7;

/// What a run does.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Chunks that are written.
    pub chunks: u64,
    /// Blocks of a chunk.
    pub blocks_per_chunk: u16,
    /// Bytes of the store.
    pub store_bytes: u64,
    /// Bytes of its log.
    pub log_bytes: u64,
    /// Does the disk lose what was not flushed?
    pub volatile_cache: bool,
    /// The disk's alignment.
    pub alignment: u32,
    /// What is beneath the disk.
    pub backing: Backing,
    /// Is free space discarded?
    pub discard: Discard,
    /// Reads take up to so long.
    pub slowest_read: Duration,
    /// How many requests are under way at most.
    pub depth: usize,
    /// How often the store is ended and started again.
    pub lives: u32,
    /// Requests of a life, at most.
    pub requests: u32,
    /// Of a hundred requests.
    pub read_percent: u64,
    /// As above.
    pub clear_percent: u64,
    /// Of a hundred writes: those that start or end inside a block.
    pub part_percent: u64,
    /// The longest write, in blocks.
    pub max_blocks: u16,
    /// Of a hundred requests: a fence by a newer generation, with whatever is under way.
    pub fence_percent: u64,
    /// Of a hundred requests: one that is under way is sent again.
    pub resend_percent: u64,
    /// Of a hundred requests: one that skips a version.
    pub gap_percent: u64,
    /// Of a hundred ends: a kill rather than a power cut.
    pub kill_percent: u64,
    /// Of a hundred ends: an older page of the log rots.
    pub rot_percent: u64,
    /// Of a hundred requests: a pause, long enough for the store to be idle.
    pub pause_percent: u64,
}

impl Profile {
    /// A profile of its own for each seed.
    #[must_use]
    pub fn draw(random: &mut Random) -> Profile {
        let mut profile = Profile {
            chunks: random.within(1, 6),
            blocks_per_chunk: *random.pick(&[4, 16, 32]),
            store_bytes: *random.pick(&[2 << 20, 4 << 20]),
            log_bytes: *random.pick(&[64 * 4096, 64 * 4096, 100 * 4096, 256 * 4096]),
            volatile_cache: random.percent(60),
            alignment: *random.pick(&[1, 512, 4096]),
            backing: *random.pick(&[Backing::Device, Backing::Device, Backing::File, Backing::SparseFile]),
            discard: *random.pick(&[Discard::Never, Discard::Devices, Discard::Always]),
            slowest_read: Duration::from_micros(*random.pick(&[120, 120, 3000])),
            depth: *random.pick(&[1, 4, 16, 32]),
            lives: random.within(2, 6) as u32,
            requests: *random.pick(&[60, 150, 300]),
            read_percent: *random.pick(&[10, 30]),
            clear_percent: *random.pick(&[0, 5, 15]),
            part_percent: *random.pick(&[0, 10, 30]),
            max_blocks: *random.pick(&[1, 2, 8, 32]),
            fence_percent: *random.pick(&[0, 1, 3]),
            resend_percent: *random.pick(&[0, 2, 10]),
            gap_percent: *random.pick(&[0, 0, 2]),
            kill_percent: *random.pick(&[0, 30, 60]),
            rot_percent: *random.pick(&[0, 0, 0, 30]),
            pause_percent: *random.pick(&[0, 1, 2]),
        };
        // By chance of its own: chunks of several leaves, and many of them.
        let mut wide = random.fork(2);
        if wide.below(WIDE_ONE_IN) == 0 {
            profile.blocks_per_chunk = *wide.pick(&[256, 512, 1024]);
            profile.chunks = wide.within(2, 12);
            profile.store_bytes = 8 << 20;
        }
        profile
    }

    /// Few slots and a short log, so that freed slots are soon wanted again and the log goes round.
    #[must_use]
    pub fn tight(mut self) -> Profile {
        self.store_bytes = 1 << 20;
        self.log_bytes = 64 * 4096;
        self.chunks = self.chunks.min(3);
        self.blocks_per_chunk = 16;
        self.max_blocks = self.max_blocks.clamp(4, 8);
        self.depth = self.depth.max(8);
        self
    }
}

/// Switches rules of the store off.
pub type Plants = amita_store::Faults;

/// Runs a seed with its own profile.
#[must_use]
pub fn run(seed: u64) -> Run {
    let profile = Profile::draw(&mut Random::new(seed).fork(1));
    run_with(seed, profile, Plants::default())
}

/// Runs a seed with a given profile, and with rules switched off.
#[must_use]
pub fn run_with(seed: u64, profile: Profile, planted: Plants) -> Run {
    let mut solo = Solo::new(seed, profile, planted);
    let failure = solo.run().err();
    for (fault, times) in solo.world.coverage() {
        solo.coverage.add(fault, times);
    }
    Run {
        trace: solo.world.trace(),
        coverage: solo.coverage,
        failure,
    }
}

struct Solo {
    random: Random,
    profile: Profile,
    planted: Plants,
    world: World,
    running: Option<(SimDriver, StoreService)>,
    player: Player,
    coverage: Coverage,
    /// Of the store, in all of its lives.
    passes: u64,
}

impl Solo {
    fn new(seed: u64, profile: Profile, planted: Plants) -> Solo {
        let random = Random::new(seed);
        let mut world = World::new(seed, SimConfig::default());
        let disk = DiskConfig {
            volatile_cache: profile.volatile_cache,
            alignment: profile.alignment,
            backing: profile.backing,
            read: (Duration::from_micros(40), profile.slowest_read),
            ..DiskConfig::flash(profile.store_bytes)
        };
        world.create_disk(DISK, disk);
        write_format(
            &mut world,
            DISK,
            STORE,
            CLUSTER,
            profile.store_bytes,
            Some(profile.log_bytes),
        );
        let player = Player::new(profile.clone(), random.fork(2));
        Solo {
            random: random.fork(3),
            profile,
            planted,
            world,
            running: None,
            player,
            coverage: Coverage::new(),
            passes: 0,
        }
    }

    fn run(&mut self) -> Result<(), String> {
        for life in 0..=self.profile.lives {
            let last = life == self.profile.lives;
            match self.live(last) {
                Ok(true) => {}
                // The store refused a damaged disk: that is all it could do.
                Ok(false) => return Ok(()),
                Err(why) => return Err(format!("store alone, life {life}: {why}")),
            }
        }
        Ok(())
    }

    /// One life of the process. False when the store may not be mounted again.
    fn live(&mut self, last: bool) -> Result<bool, String> {
        let mut driver = self.world.driver(NODE);
        let config = amita_store::Config {
            cluster: Some(CLUSTER),
            discard: self.profile.discard,
            faults: self.planted,
            ..amita_store::Config::default()
        };
        let service = StoreService::open(&mut driver, Path::new(DISK), config).map_err(|error| error.to_string())?;
        self.running = Some((driver, service));
        let limit = self.world.now().plus(PATIENCE);
        loop {
            let state = self.service().state().clone();
            match state {
                State::Serving => break,
                State::Mounting => {}
                State::Refused(why) if self.player.has_rot() => {
                    self.coverage.hit("solo.damage_refused");
                    assert!(!why.to_string().is_empty(), "a refusal says why");
                    return Ok(false);
                }
                State::Refused(why) => return Err(format!("refused a sound disk: {why}")),
                State::Poisoned(why) => return Err(format!("poisoned without an error of the disk: {why}")),
            }
            if !self.step(limit) {
                return Err("the mount does not end".into());
            }
        }
        self.count_mount();
        self.player.started(self.world.now());
        // A life ends at a random moment: after some requests, with whatever is under way.
        let requests = if last {
            0
        } else {
            1 + self.random.below(u64::from(self.profile.requests)) as u32
        };
        self.player.plan(requests);
        let mut waiting_since = self.world.now();
        loop {
            let now = self.world.now();
            let (_, service) = self.running.as_mut().ok_or("no process")?;
            let before = service.asked();
            let next = self.player.act(now, service)?;
            if service.asked() != before {
                waiting_since = now;
                self.driver().again();
            }
            match next {
                player::Next::Ended => break,
                player::Next::Wait => {
                    if now.since(waiting_since) > PATIENCE {
                        return Err(format!("no answer for {PATIENCE:?}: {}", self.player.waiting_for()));
                    }
                    self.step(now.plus(PATIENCE));
                }
                player::Next::Pause(length) => {
                    let until = now.plus(length);
                    while self.world.now() < until {
                        self.step(until);
                    }
                }
            }
            for (now, answer, payload) in self.service().take_answers() {
                waiting_since = self.world.now();
                self.player.answer(now, answer, payload)?;
            }
        }
        self.count_life();
        if last {
            return Ok(true);
        }
        // Let a little more happen, so that a crash also falls where nothing is being sent.
        let grace = Duration::from_micros(self.random.below(600));
        let until = self.world.now().plus(grace);
        while self.world.now() < until {
            self.step(until);
        }
        for (now, answer, payload) in self.service().take_answers() {
            self.player.answer(now, answer, payload)?;
        }
        self.end();
        Ok(true)
    }

    fn service(&mut self) -> &mut StoreService {
        &mut self.running.as_mut().expect("a process runs").1
    }

    fn driver(&mut self) -> &mut SimDriver {
        &mut self.running.as_mut().expect("a process runs").0
    }

    /// Lets the next thing happen; false when nothing more does before `limit`.
    fn step(&mut self, limit: Time) -> bool {
        if self.world.next_until(limit).is_none() {
            return false;
        }
        let now = self.world.now();
        let (driver, service) = self.running.as_mut().expect("a process runs");
        service.set_world_time(now);
        let mut completions = Vec::new();
        driver.run(service, &mut completions);
        self.passes += 1;
        let everything = self.passes.is_multiple_of(LOOK_EVERY);
        service.check(everything);
        if cfg!(feature = "planted") {
            let path = if everything { "check.store" } else { "check.store_sums" };
            self.coverage.hit(path);
        }
        true
    }

    fn end(&mut self) {
        self.running = None;
        if self.random.percent(self.profile.kill_percent) {
            self.world.kill(NODE);
        } else {
            self.world.power_cut(NODE);
        }
        self.player.ended();
        if self.random.percent(self.profile.rot_percent) {
            self.rot();
        }
    }

    /// Flips a bit of a page of the log that has valid successors: damage, and not the end of the log (D4).
    fn rot(&mut self) {
        let geometry = amita_store::format::Geometry::divide(self.profile.store_bytes, Some(self.profile.log_bytes))
            .expect("it was formatted so");
        let mut page = vec![0; 4096];
        let mut pages = Vec::new();
        for place in 0..geometry.log_pages {
            self.world.read_disk(DISK, geometry.log_page_offset(place), &mut page);
            if let Some(found) = LogPage::decode(&page, STORE) {
                pages.push((found.header.sequence, found.header.mark));
            }
        }
        // Below the newest durable mark: that it was durable is known.
        let mark = pages.iter().map(|(_, mark)| *mark).max().unwrap_or(0);
        pages.retain(|(sequence, _)| *sequence < mark);
        if pages.is_empty() {
            return;
        }
        let (sequence, _) = *self.random.pick(&pages);
        let offset = geometry.log_page_offset(sequence) + self.random.below(4096);
        self.world.flip_bit(DISK, offset, self.random.below(8) as u8);
        self.player.rotted();
        self.coverage.hit("solo.log_rot");
    }

    fn count_mount(&mut self) {
        let mount = self.service().status().mount;
        self.coverage.add("store.records_replayed", mount.records_replayed);
        self.coverage.add("store.records_verified", mount.records_verified);
        self.coverage
            .add("store.mount_ended_short", u64::from(mount.ended_short));
        self.coverage.add("store.batches_dropped", mount.batches_dropped);
        self.coverage.hit("solo.mounts");
    }

    fn count_life(&mut self) {
        let counters = self.service().status().counters;
        count_store(&mut self.coverage, &counters);
        self.player.count(&mut self.coverage);
    }
}

/// A store's counters, as paths.
pub fn count_store(coverage: &mut Coverage, counters: &Counters) {
    coverage.add("store.reads", counters.reads);
    coverage.add("store.writes", counters.writes);
    coverage.add("store.clears", counters.clears);
    coverage.add("store.rolls", counters.rolls);
    coverage.add("store.fences", counters.fences);
    coverage.add("store.refused", counters.refused);
    coverage.add("store.resends", counters.resends);
    coverage.add("store.merges", counters.merges);
    coverage.add("store.batches", counters.batches);
    coverage.add("store.checkpoints", counters.checkpoints);
    coverage.add("store.damaged", counters.damaged);
    coverage.add("store.copied_blocks", counters.copied_blocks);
    coverage.add("store.log_waits", counters.log_waits);
    coverage.add("store.mark_pages", counters.mark_pages);
    coverage.add("store.discarded_bytes", counters.discarded_bytes);
}

/// Formats a simulated disk. A new one is full of zeros, so only the superblocks are left to write.
pub fn write_format(
    world: &mut World,
    disk: &str,
    store: StoreId,
    cluster: ClusterId,
    size_bytes: u64,
    log_bytes: Option<u64>,
) {
    let params = FormatParams {
        store,
        cluster,
        size_bytes,
        log_bytes,
    };
    let format = amita_store::format(&params).expect("the simulated store has a possible size");
    for offset in amita_store::format::superblock::OFFSETS {
        world.write_disk(disk, offset, &format.superblock().encode());
    }
}

#[cfg(test)]
mod tests;
