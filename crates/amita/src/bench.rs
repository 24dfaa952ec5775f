//! bench
pub mod report;
pub mod units;
