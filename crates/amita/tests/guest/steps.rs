//! A test of many steps in one guest: each is timed, tells what it saw, and fails on its own.

use crate::host::Host;
use amita_terminal::error::Result;
use std::time::Instant;

pub struct Steps<'a> {
    hosts: Vec<&'a Host>,
    test: &'static str,
    count: usize,
    failed: Vec<String>,
    started: Instant,
}

impl<'a> Steps<'a> {
    pub fn of(test: &'static str, hosts: &[&'a Host]) -> Steps<'a> {
        println!("{test}:");
        Steps {
            hosts: hosts.to_vec(),
            test,
            count: 0,
            failed: Vec::new(),
            started: Instant::now(),
        }
    }

    /// Runs a step, which returns what it saw.
    pub fn step(&mut self, name: &str, run: impl FnOnce() -> Result<String>) {
        let started = Instant::now();
        self.count += 1;
        let (word, saw) = match run() {
            Ok(saw) => ("ok    ", saw),
            Err(failure) => {
                self.failed.push(name.to_owned());
                self.hosts.iter().for_each(|host| host.clean());
                ("FAILED", failure.to_string())
            }
        };
        let saw = saw.trim_end().replace('\n', "\n           ");
        println!(
            "  {word} {name} ({:.1} s)\n           {saw}",
            started.elapsed().as_secs_f64()
        );
    }

    /// # Panics
    /// When a step has failed.
    pub fn finish(self) {
        let Steps {
            test,
            count,
            failed,
            started,
            ..
        } = self;
        println!("{test}: {count} steps, {:.0} s", started.elapsed().as_secs_f64());
        assert!(
            failed.is_empty(),
            "{test}: {} of {count} steps failed: {failed:?}",
            failed.len()
        );
    }
}
