//! What can be wrong with a disk, and what to do about it.

use amita_types::{ClusterId, StoreId};

/// Why a file cannot become a store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    #[error("a store of {size_bytes} bytes is too small: it takes at least {least_bytes}; choose a larger size")]
    TooSmall {
        /// What was asked for.
        size_bytes: u64,
        /// What it takes.
        least_bytes: u64,
    },
    /// Too large.
    #[error(
        "a store of {size_bytes} bytes is too large: at most {most_bytes} can be addressed; make several stores of the disk"
    )]
    TooLarge {
        /// What was asked for.
        size_bytes: u64,
        /// What can be addressed.
        most_bytes: u64,
    },
    #[error("a store of {size_bytes} bytes is no multiple of 4096; round it down to {rounded_bytes}")]
    NotWholeBlocks {
        /// What was asked for.
        size_bytes: u64,
        /// The next smaller size that is possible.
        rounded_bytes: u64,
    },
}

/// Why a store is not served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MountError {
    /// Neither superblock has the magic number.
    #[error(
        "no store: neither superblock (bytes 0 and 32768) begins with the magic number of an Amita store; \
         check the path, or format it with `amita disk format`"
    )]
    NotAStore,
    /// Superblocks are there, but none is whole.
    #[error(
        "both superblocks (bytes 0 and 32768) are damaged: {what}; the store cannot be served: \
         format it anew and let its groups be copied back from their other members"
    )]
    SuperblockDamaged {
        /// What is wrong with them.
        what: String,
    },
    /// Written by a newer version.
    #[error("the store has format version {found}, this program knows {known}; run a newer version of Amita on it")]
    NewerFormat {
        /// The store's.
        found: u32,
        /// The newest that is known.
        known: u32,
    },
    /// The store uses features that are not known.
    #[error(
        "the store uses format features {features:#x} that this program does not know; run a newer version of Amita on it"
    )]
    UnknownFeatures {
        /// The bits that are not known.
        features: u64,
    },
    /// Another cluster's.
    #[error(
        "the store {store} belongs to cluster {found}, not to {expected}; check the path and the metadata's address. If the \
         metadata was lost, `amita recover --from-stores` rebuilds it. Format the store anew only if nobody needs its data"
    )]
    OtherCluster {
        store: StoreId,
        found: ClusterId,
        /// The node's cluster.
        expected: ClusterId,
    },
    /// The file is shorter than it was when it was formatted.
    #[error(
        "the file is truncated: it has {found_bytes} bytes, the store was formatted with {expected_bytes}; \
         restore the file's size only if you know what cut it, else format it anew"
    )]
    Truncated {
        /// The file's size.
        found_bytes: u64,
        /// The size in the superblock.
        expected_bytes: u64,
    },
    /// The checkpoint cannot be read.
    #[error(
        "the checkpoint is damaged at byte {offset}: {what}; the store cannot be served: \
         format it anew and let its groups be copied back from their other members"
    )]
    CheckpointDamaged {
        /// Where.
        offset: u64,
        what: String,
    },
    /// A page of the log that was durable cannot be read: writes are missing, and it is not known which.
    #[error(
        "the log is damaged at byte {offset} (page {sequence}): {what}; acknowledged writes are missing, so the store \
         cannot be served: format it anew and let its groups be copied back from their other members"
    )]
    LogDamaged {
        /// Where.
        offset: u64,
        /// Which page.
        sequence: u64,
        what: String,
    },
    /// Log and checkpoint do not fit together.
    #[error(
        "log and checkpoint contradict each other: {what}; the store cannot be served: \
         format it anew and let its groups be copied back from their other members"
    )]
    Inconsistent {
        /// What does not fit.
        what: String,
    },
    /// The device answered with an error.
    #[error(
        "the device failed at byte {offset} while the store was being mounted: {error}; check the device and its cables"
    )]
    Device {
        /// Where.
        offset: u64,
        /// What it said.
        error: String,
    },
    /// The index needs more memory than the settings allow.
    #[error("the index of this store needs more than the {limit_bytes} bytes that the settings allow; raise the limit")]
    IndexTooLarge { limit_bytes: u64 },
}
