//! What is fuzzed: plain functions that take any bytes and panic where a rule is broken. `tests/suite/fuzzing.rs` calls them on
//! stable with a small mutator of its own; the crate `fuzz` at the root of the repository calls the same ones under
//! libFuzzer, with its coverage.
//!
//! | file | what |
//! | --- | --- |
//! | `pages` | the parsers: superblock, log page and records, checkpoint page and items |
//! | `mount` | a damaged image is mounted, asked, written to and mounted again |
//! | `base` | the valid images that damage begins with |
//! | `edit` | an input as a list of edits of an image |
//! | `known` | faults that are found and not mended yet, which the run steps around |
//! | `mutate` | the mutator of the stable run, and the seeds of both |

pub mod base;
pub mod edit;
pub mod known;
pub mod mount;
pub mod mutate;
pub mod pages;

/// A target: its name, and what it does with an input.
pub type Target = (&'static str, fn(&[u8]));

pub const TARGETS: [Target; 5] = [
    ("superblock", pages::superblock),
    ("log", pages::log),
    ("checkpoint", pages::checkpoint),
    ("leaf", pages::leaf),
    ("mount", mount::mount),
];
