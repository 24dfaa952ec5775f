//! The API over the metadata's model: what is answered, and what is refused.

mod alerts;
mod attachments;
mod backup_tasks;
mod commands;
mod compatibility;
mod conditions;
mod data;
mod every;
mod host_keys;
mod iscsi;
mod jobs;
mod mirror_pairs;
mod mirrors;
mod owners;
mod specification;
mod versions;
mod volumes;
mod world;
