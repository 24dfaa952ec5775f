//! What goes to whoever helps: files with a manifest, in one archive, without secrets.
//!
//! Two things keep secrets out. What is packed is on a list, field by field ([`allowed`]): a field that somebody adds to a record tomorrow
//! is not in a bundle until somebody puts it on the list. And every text passes [`clean`], which knows what keys and passwords look like:
//! errors, names and log lines are written by many, and may quote anything.

mod allowed;
mod archive;
mod clean;

pub use allowed::{RECORDS, Records, STATUS, pick, records};
pub use archive::{Bundle, NotGot, Packed};
pub use clean::clean;

#[cfg(test)]
mod tests;
