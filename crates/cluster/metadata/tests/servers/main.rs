//! The embedded server, and a real etcd beside it where both must do the same. What changes the whole process (a limit, a
//! logger) has a binary of its own.

mod common;
mod embedded;
mod etcd;
mod greedy;
mod pki;
mod secure;
mod suite;
