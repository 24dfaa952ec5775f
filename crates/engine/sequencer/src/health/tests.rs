//! Stores with latencies of their own, asked as a gateway asks them.

use super::*;
use crate::table::{Key, WatchSlot};

/// How long a store takes, in microseconds, by a random number below ten thousand.
type Model = fn(u64) -> u64;

fn healthy(dice: u64) -> u64 {
    150 + dice % 100
}

/// One answer in two hundred takes fifteen milliseconds, one in two thousand sixty: a disk that cleans up.
fn noisy(dice: u64) -> u64 {
    match dice {
        0..5 => 60_000,
        5..55 => 15_000,
        _ => healthy(dice) * 2,
    }
}

fn slow_disk(dice: u64) -> u64 {
    healthy(dice) * 50
}

fn lossy_link(dice: u64) -> u64 {
    if dice < 100 { 200_000 } else { healthy(dice) }
}

fn store(number: usize) -> StoreId {
    StoreId(number as u128 + 1)
}

struct Gateway {
    health: Health,
    now: Time,
    models: Vec<Model>,
    seed: u64,
    /// Writes a second, each to all stores, and reads a second, each to one that is not avoided.
    writes: u64,
    reads: u64,
    turn: usize,
    reads_of: Vec<u64>,
    events: Vec<(u64, HealthEvent)>,
}

impl Gateway {
    fn new(models: &[Model]) -> Gateway {
        let mut health = Health::default();
        for number in 0..models.len() {
            assert_eq!(health.number(store(number)), WatchSlot::new(number));
        }
        Gateway {
            health,
            now: Time(1),
            models: models.to_vec(),
            seed: 11,
            writes: 500,
            reads: 1000,
            turn: 0,
            reads_of: vec![0; models.len()],
            events: Vec::new(),
        }
    }

    fn dice(&mut self) -> u64 {
        self.seed = self
            .seed
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.seed >> 33) % 10_000
    }

    fn took(&mut self, number: usize) -> Duration {
        let dice = self.dice();
        Duration::from_micros(self.models[number](dice))
    }

    fn second(&mut self) {
        let steps = self.writes + self.reads;
        for step in 0..steps {
            self.now = self.now.plus(Duration::from_nanos(1_000_000_000 / steps));
            if step * self.writes / steps != (step + 1) * self.writes / steps {
                for number in 0..self.models.len() {
                    let took = self.took(number);
                    self.health.record(self.now, WatchSlot::new(number), true, took);
                }
            } else {
                self.turn += 1;
                let number = (0..self.models.len())
                    .map(|more| (self.turn + more) % self.models.len())
                    .find(|&number| !self.health.avoids(WatchSlot::new(number)))
                    .unwrap_or(0);
                let took = self.took(number);
                self.reads_of[number] += 1;
                self.health.record(self.now, WatchSlot::new(number), false, took);
            }
        }
        let second = self.now.0 / 1_000_000_000;
        let events: Vec<_> = self.health.events().collect();
        self.events.extend(events.into_iter().map(|event| (second, event)));
    }

    fn seconds(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.second();
        }
    }

    fn slow(&self) -> Vec<StoreId> {
        let report = self.health.report(self.now, &[]);
        assert!(report.iter().all(|found| found.slow));
        report.into_iter().map(|found| found.store).collect()
    }
}

#[test]
fn a_slow_disk_is_avoided_at_once_and_called_slow_soon() {
    let mut gateway = Gateway::new(&[healthy, slow_disk, noisy]);
    gateway.seconds(3);
    let before = gateway.reads_of[1];
    assert_eq!(gateway.slow(), vec![]);
    gateway.seconds(10);
    assert_eq!(gateway.slow(), vec![store(1)]);
    let reads = gateway.reads_of[1] - before;
    assert!((10..=10_000 / 40).contains(&reads), "{reads} probes of 10,000 reads");
    let (at, event) = &gateway.events[0];
    assert!(*at <= 9 && gateway.events.len() == 1, "{:?}", gateway.events);
    assert!(event.to_string().starts_with("slow store: "), "{event}");
    assert!(gateway.health.has_slow());
    // Asked for, the others are called well.
    let report = gateway.health.report(gateway.now, &[store(0), store(1)]);
    let found: Vec<_> = report.iter().map(|found| (found.store, found.slow)).collect();
    assert_eq!(found, vec![(store(0), false), (store(1), true)]);
    assert!(report[1].for_s >= 8, "{report:?}");
}

#[test]
fn a_lossy_link_is_found_by_the_few_that_take_very_long() {
    let mut gateway = Gateway::new(&[healthy, noisy, lossy_link]);
    gateway.seconds(20);
    assert_eq!(gateway.slow(), vec![store(2)], "{:?}", gateway.events);
    let report = gateway.health.report(gateway.now, &[]);
    assert!(report[0].why.contains("take more than 50 ms"), "{report:?}");
}

#[test]
fn noise_is_not_slowness() {
    let mut gateway = Gateway::new(&[healthy, noisy, healthy, noisy]);
    gateway.seconds(300);
    assert_eq!(gateway.events, vec![]);
    let least = gateway.reads_of.iter().min().unwrap();
    assert!(*least > 60_000, "{:?}", gateway.reads_of);
}

#[test]
fn where_all_are_slow_alike_nobody_is_blamed() {
    for model in [slow_disk, lossy_link] {
        let mut gateway = Gateway::new(&[healthy, healthy, healthy]);
        gateway.seconds(10);
        gateway.models = vec![model; 3];
        gateway.seconds(60);
        assert_eq!(gateway.events, vec![]);
        assert_eq!(gateway.slow(), vec![]);
    }
}

#[test]
fn half_of_the_stores_are_not_an_exception() {
    let mut gateway = Gateway::new(&[slow_disk, healthy, slow_disk, healthy]);
    gateway.seconds(30);
    assert_eq!(gateway.slow(), vec![]);
}

#[test]
fn it_is_well_again_only_after_a_good_while() {
    let mut gateway = Gateway::new(&[healthy, healthy, slow_disk]);
    gateway.seconds(20);
    assert_eq!(gateway.slow(), vec![store(2)]);
    for _ in 0..5 {
        // Better for a moment, and bad again.
        gateway.models[2] = healthy;
        gateway.seconds(5);
        gateway.models[2] = slow_disk;
        gateway.seconds(8);
    }
    assert_eq!(gateway.events.len(), 1, "{:?}", gateway.events);
    assert_eq!(gateway.slow(), vec![store(2)]);
    gateway.models[2] = healthy;
    gateway.seconds(40);
    assert_eq!(gateway.slow(), vec![]);
    assert_eq!(gateway.events[1].1, HealthEvent::Well { store: store(2) });
    let before = gateway.reads_of[2];
    gateway.seconds(3);
    assert!(gateway.reads_of[2] - before > 900, "it is read from as before");
}

#[test]
fn a_short_fit_is_forgiven() {
    let mut gateway = Gateway::new(&[healthy, healthy, healthy]);
    for _ in 0..10 {
        gateway.seconds(20);
        gateway.models[0] = slow_disk;
        gateway.seconds(2);
        gateway.models[0] = healthy;
    }
    gateway.seconds(20);
    assert_eq!(gateway.events, vec![]);
    assert!(!gateway.health.avoids(WatchSlot::new(0)));
}

#[test]
fn few_answers_and_few_stores_say_nothing() {
    let mut gateway = Gateway::new(&[healthy, slow_disk, healthy]);
    (gateway.writes, gateway.reads) = (2, 3);
    gateway.seconds(15);
    assert_eq!(gateway.events, vec![]);
    // Of two the other is the measure, and must be far better.
    let far: Model = |dice| healthy(dice) * 10;
    for (model, expected) in [(far, 0), (slow_disk as Model, 1)] {
        let mut gateway = Gateway::new(&[healthy, model]);
        gateway.seconds(30);
        assert_eq!(gateway.events.len(), expected, "{:?}", gateway.events);
    }
    // Alone there is nobody to compare it with.
    let mut gateway = Gateway::new(&[slow_disk]);
    gateway.seconds(100);
    assert_eq!(gateway.events, vec![]);
}

#[test]
fn a_store_that_is_not_asked_any_more_is_forgotten() {
    let mut gateway = Gateway::new(&[slow_disk, healthy, healthy]);
    gateway.seconds(20);
    assert_eq!(gateway.slow(), vec![store(0)]);
    for _ in 0..120 {
        gateway.now = gateway.now.plus(Duration::from_secs(1));
        gateway.health.tick(gateway.now);
    }
    assert_eq!(gateway.slow(), vec![]);
    assert!(!gateway.health.has_slow());
}

#[test]
fn a_second_member_is_asked_when_a_read_is_late_and_not_too_often() {
    let most = Duration::from_millis(50);
    let mut gateway = Gateway::new(&[healthy, healthy, slow_disk]);
    assert_eq!(gateway.health.hedge_after(most), most);
    gateway.seconds(3);
    let after = gateway.health.hedge_after(most);
    assert_eq!(after, LEAST_HEDGE, "three times 0.25 ms is below the least");
    // What it may cost comes to an end, and comes back with reads.
    let mut hedged = 0;
    while !gateway.health.is_spent() {
        gateway.health.hedged();
        hedged += 1;
    }
    assert_eq!(hedged, EXTRA_MOST);
    assert_eq!(gateway.health.hedge_after(most), most);
    gateway.seconds(1);
    assert_eq!(gateway.health.hedge_after(most), after);
}

/// A sequencer of a large pool asks for the number of each of its stores, and there are many sequencers.
#[test]
fn a_number_is_found_without_a_look_at_all_stores() {
    let mut health = Health::default();
    let before = crate::table::looks();
    for _ in 0..10 {
        for number in 0..1000 {
            assert_eq!(health.number(store(number)), WatchSlot::new(number));
        }
    }
    let looks = crate::table::looks() - before;
    assert!(looks <= 10_000, "{looks} looks");
}
