//! End to end: the real binary, real processes on loopback, stock clients. Each test has a cluster of its own, on free
//! ports, in folders that are removed, and reads all logs at its end.

mod audit;
mod backups;
mod bad_input;
mod changes;
mod client;
mod clones;
mod commands;
mod demo;
mod exports;
mod failures;
mod healing;
mod identity;
mod images;
mod load;
mod local_socket;
mod metadata;
mod nvme;
mod observe;
mod operator;
mod planned;
mod policies;
mod quickstart;
mod recover;
mod reverts;
mod sets;
mod shrinks;
mod snapshot_readers;
mod snapshots;
mod space;
mod stock_clients;
mod store_tools;
mod tenants;
mod tls;
mod world;
