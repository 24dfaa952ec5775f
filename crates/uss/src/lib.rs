//! The storage service trait and the protocols over it.
