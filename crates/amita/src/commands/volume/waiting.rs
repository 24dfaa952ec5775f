//! Whoever asks for a copy or a move of a volume looks how far it is. Nodes make it, with or without that.

use crate::admin::{Admin, Described};
use amita_control::admin;
use amita_terminal::error::{Failure, Kind, Result};
use amita_terminal::progress::{self, ProgressBar};
use amita_terminal::{interrupt, output};
use amita_types::map::Copying;
use std::time::Duration;

/// How often it is looked how far it has come.
const LOOK: Duration = Duration::from_millis(200);

/// What is waited for.
pub(super) struct Waiting<'a> {
    pub asked: &'a Copying,
    /// What the bar is called; none: nothing is shown.
    pub bar: Option<&'a str>,
    /// Only until it is known of which moment it is.
    pub only_settled: bool,
    /// What is said where it was taken back.
    pub taken_back: String,
    /// What is said to whoever is interrupted.
    pub goes_on: String,
}

impl Waiting<'_> {
    /// Has it come to its end? Else only so far as was to be waited for. Of one of which there is no job any more `is_made` says whether it was made,
    /// and is told whether it was whole when it was looked at last.
    pub(super) fn wait(&self, metadata: &Admin, is_made: impl Fn(bool) -> Result<bool>) -> Result<bool> {
        interrupt::catch();
        let bar = match self.bar {
            None => ProgressBar::hidden(),
            Some(what) => progress::bar(what, self.asked.place.total_bytes),
        };
        let ended = self.look(metadata, &bar, is_made);
        bar.finish_and_clear();
        ended
    }

    fn look(&self, metadata: &Admin, bar: &ProgressBar, is_made: impl Fn(bool) -> Result<bool>) -> Result<bool> {
        let reader = metadata.reader();
        let mut ails = None;
        let mut whole = false;
        loop {
            let Some(now) = admin::copy_of(&reader, self.asked.volume).described()? else {
                return match is_made(whole)? {
                    true => Ok(true),
                    false => Err(self.was_taken_back()),
                };
            };
            whole = now.whole;
            if now.cancelled {
                return Err(self.was_taken_back());
            }
            if self.only_settled && now.place.last.is_some() {
                return Ok(false);
            }
            bar.set_length(now.place.total_bytes);
            bar.set_position(now.place.done_bytes());
            if now.ails.is_some() && now.ails != ails {
                let why = now.ails.clone().unwrap_or_default();
                bar.suspend(|| output::beside(&format!("It does not go on now, and is tried again: {why}")));
            }
            ails = now.ails;
            interrupt::sleep(LOOK).map_err(|failure| failure.advice(self.goes_on.clone()))?;
        }
    }

    fn was_taken_back(&self) -> Failure {
        Failure::new(self.taken_back.clone())
            .kind(Kind::Conflict)
            .advice("Give the command again where it is wanted after all.")
    }
}
