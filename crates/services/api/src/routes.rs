//! A file for each kind of thing.

mod alerts;
mod attachments;
mod audit;
mod backup_points;
mod backup_policies;
mod backup_repositories;
mod backup_tasks;
mod certificates;
mod cluster;
mod commands;
mod copies;
mod counters;
mod data;
mod events;
mod exports;
mod history;
mod host_keys;
mod hosts;
mod initiators;
mod input;
mod inspect;
mod iscsi_attachments;
mod iscsi_sessions;
mod jobs;
mod limits;
mod links;
mod mirror_links;
mod mirrors;
mod nodes;
mod notify;
mod policies;
mod pools;
mod priority;
mod reservations;
mod sets;
mod settings;
mod snapshots;
mod stores;
mod subsystems;
mod targets;
mod tokens;
mod traces;
mod trash;
mod volumes;
mod wait;
mod watches;
mod work;

pub use counters::{CoreCounters, LatencyCounters, NodeCounters, OperationCounters, StoreCounters, VolumeCounters};
pub use iscsi_sessions::IscsiSession;
pub use traces::{Trace, TraceLeg, TraceStage};

use crate::session::Api;
use utoipa_axum::router::OpenApiRouter;

/// All of them.
pub fn all() -> OpenApiRouter<Api> {
    let all = [
        cluster::routes(),
        inspect::routes(),
        links::routes(),
        certificates::routes(),
        nodes::routes(),
        stores::routes(),
        pools::routes(),
        volumes::routes(),
        snapshots::routes(),
        data::routes(),
        trash::routes(),
        sets::routes(),
        policies::routes(),
        backup_repositories::routes(),
        backup_policies::routes(),
        backup_points::routes(),
        backup_tasks::routes(),
        work::routes(),
        copies::routes(),
        mirrors::routes(),
        mirror_links::routes(),
        jobs::routes(),
        limits::routes(),
        priority::routes(),
        reservations::routes(),
        attachments::routes(),
        iscsi_attachments::routes(),
        exports::routes(),
        subsystems::routes(),
        hosts::routes(),
        host_keys::routes(),
        targets::routes(),
        initiators::routes(),
        iscsi_sessions::routes(),
        settings::routes(),
        events::routes(),
        history::routes(),
        traces::routes(),
        counters::routes(),
        audit::routes(),
        alerts::routes(),
        notify::routes(),
        watches::routes(),
        tokens::routes(),
        commands::routes(),
    ];
    all.into_iter().fold(OpenApiRouter::new(), OpenApiRouter::merge)
}
