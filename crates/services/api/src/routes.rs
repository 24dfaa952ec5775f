//! A file for each kind of thing.

mod audit;
mod cluster;
mod events;
mod exports;
mod hosts;
mod input;
mod nodes;
mod policies;
mod pools;
mod sets;
mod settings;
mod snapshots;
mod stores;
mod subsystems;
mod tokens;
mod trash;
mod volumes;
mod wait;
mod watches;
mod work;

use crate::session::Api;
use utoipa_axum::router::OpenApiRouter;

/// All of them.
pub fn all() -> OpenApiRouter<Api> {
    let all = [
        cluster::routes(),
        nodes::routes(),
        stores::routes(),
        pools::routes(),
        volumes::routes(),
        snapshots::routes(),
        trash::routes(),
        sets::routes(),
        policies::routes(),
        work::routes(),
        exports::routes(),
        subsystems::routes(),
        hosts::routes(),
        settings::routes(),
        events::routes(),
        audit::routes(),
        watches::routes(),
        tokens::routes(),
    ];
    all.into_iter().fold(OpenApiRouter::new(), OpenApiRouter::merge)
}
