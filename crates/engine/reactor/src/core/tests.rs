use super::*;
use crate::buf::{Pool, PoolConfig};
use crate::driver::{Outcome, Time, Token};
use crate::uring::{UringConfig, UringDriver};
use std::time::{Duration, Instant};

fn driver() -> io::Result<UringDriver> {
    UringDriver::new(UringConfig::default(), Pool::new(PoolConfig::with_total(8 << 20))?)
}

/// Counts its timer's ticks, and stops after some.
struct Ticker {
    ticks: u32,
    stop: Stop,
    thread: Arc<Mutex<String>>,
}

impl Service for Ticker {
    fn pass(&mut self, driver: &mut dyn Driver, completions: &mut Vec<Completion>) -> Wait {
        let due = completions
            .drain(..)
            .filter(|done| matches!(done.outcome, Outcome::Timer))
            .count();
        if self.ticks == 0 || due > 0 {
            self.ticks += 1;
            *self.thread.lock().unwrap() = thread::current().name().unwrap_or("").to_owned();
            if self.ticks > 5 {
                self.stop.stop();
            }
            driver.timer(driver.now().plus(Duration::from_millis(1)), Token(1));
        }
        Wait::UntilEvent
    }
}

#[test]
fn a_service_runs_on_its_own_thread_until_it_is_stopped() {
    let stop = Stop::new();
    let thread = Arc::new(Mutex::new(String::new()));
    let (of_service, seen) = (stop.clone(), thread.clone());
    let config = CoreConfig {
        index: 3,
        cpu: placement(1, Some(true))[0],
    };
    let core = spawn(config, stop.clone(), move || {
        assert_eq!(allowed_cpus().len(), 1, "pinned");
        Ok((
            driver()?,
            Ticker {
                ticks: 0,
                stop: of_service,
                thread: seen,
            },
        ))
    });
    core.unwrap().join().unwrap();
    assert!(stop.is_stopped());
    assert_eq!(*thread.lock().unwrap(), "core-3");
}

struct Idle;

impl Service for Idle {
    fn pass(&mut self, _: &mut dyn Driver, completions: &mut Vec<Completion>) -> Wait {
        completions.clear();
        Wait::UntilEvent
    }
}

#[test]
fn a_stop_from_another_thread_wakes_a_core_that_sleeps() {
    let stop = Stop::new();
    let core = spawn(CoreConfig::default(), stop.clone(), || Ok((driver()?, Idle))).unwrap();
    thread::sleep(Duration::from_millis(50));
    assert!(!core.is_finished());
    let before = Instant::now();
    stop.stop();
    core.join().unwrap();
    assert!(before.elapsed() < Duration::from_secs(10));
}

struct Faulty;

impl Service for Faulty {
    fn pass(&mut self, driver: &mut dyn Driver, _: &mut Vec<Completion>) -> Wait {
        assert!(driver.now() == Time(u64::MAX), "it was planted");
        Wait::No
    }
}

#[test]
fn a_panic_is_reported_and_stops_the_other_cores() {
    let stop = Stop::new();
    let idle = spawn(CoreConfig { index: 0, cpu: None }, stop.clone(), || {
        Ok((driver()?, Idle))
    })
    .unwrap();
    let faulty = spawn(CoreConfig { index: 1, cpu: None }, stop.clone(), || {
        Ok((driver()?, Faulty))
    })
    .unwrap();
    let panicked = faulty.join().unwrap_err();
    assert_eq!((panicked.core, panicked.message.as_str()), (1, "it was planted"));
    idle.join().unwrap();
}

#[test]
fn an_error_of_building_is_returned_to_who_started_the_core() {
    let build = || Err::<(UringDriver, Idle), _>(io::Error::new(io::ErrorKind::NotFound, "no such store"));
    let error = spawn(CoreConfig::default(), Stop::new(), build).err().unwrap();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
}

#[test]
fn cores_stay_put_only_where_there_are_processors_for_all() {
    let there = allowed_cpus().len();
    assert!(placement(there, None).iter().all(Option::is_some));
    assert!(placement(there + 1, None).iter().all(Option::is_none));
    assert!(placement(there + 1, Some(true)).iter().all(Option::is_some));
    assert!(placement(1, Some(false)).iter().all(Option::is_none));
}
