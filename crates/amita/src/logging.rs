//! Lines on standard error: time, level, where, what. ERROR means that a person must look.

use log::{Level, LevelFilter, Log, Metadata, Record};
use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

struct Stderr;

impl Log for Stderr {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) || !is_for_operators(record, log::max_level()) {
            return;
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let line = line(record, since);
        // One write a line, so that lines of several processes in one file stay whole. Nobody is left to tell when
        // standard error is gone.
        let _ = std::io::stderr().write_all(line.as_bytes());
    }

    fn flush(&self) {}
}

/// Is it meant for who runs a node? What libraries warn of is meant for who writes programs, and strangers cause as much of it as they
/// like, a line for each connection: what of that matters our own code says. Who asks for more than usual gets it.
fn is_for_operators(record: &Record<'_>, level: LevelFilter) -> bool {
    let is_ours = record.module_path().is_some_and(|path| path.starts_with("amita"));
    is_ours || record.level() == Level::Error || level > LevelFilter::Info
}

/// A record as it is written, at that time since 1970.
fn line(record: &Record<'_>, since: Duration) -> String {
    let level = match record.level() {
        Level::Error => "ERROR",
        Level::Warn => "WARN ",
        Level::Info => "INFO ",
        Level::Debug => "DEBUG",
        Level::Trace => "TRACE",
    };
    let source = record
        .target()
        .trim_start_matches("amita_")
        .split("::")
        .next()
        .unwrap_or_default();
    let mut line = format!(
        "{} {level} {source}: ",
        timestamp(since.as_secs(), since.subsec_millis())
    );
    for c in record.args().to_string().chars() {
        if is_obeyed(c) {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    line.push('\n');
    line
}

/// Would a terminal do something, instead of showing a letter? Texts of strangers are in the records: no such text begins
/// a line of its own, takes one back, or turns one around.
fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// `2026-11-20T09:55:11.123Z`.
pub(crate) fn timestamp(unix_seconds: u64, milliseconds: u32) -> String {
    let (days, seconds) = (unix_seconds / 86_400, unix_seconds % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milliseconds:03}Z")
}

/// The date that is `days` after 1970-01-01 (Howard Hinnant: "chrono-compatible low-level date algorithms").
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let of_era = shifted % 146_097;
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

/// Starts logging. Once per process; a second call changes the level only.
pub fn start(level: LevelFilter) {
    static LOGGER: Stderr = Stderr;
    // A second logger is refused: the first one goes on, which is what is wanted.
    let _ = log::set_logger(&LOGGER);
    log::set_max_level(level);
}

#[cfg(test)]
mod tests;
