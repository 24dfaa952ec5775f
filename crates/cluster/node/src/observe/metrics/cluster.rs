//! What only the coordinator tells: the cluster, as its metadata has it, and what has become of the policies of snapshots and backups, and of mirrors.

use super::Metric;
use super::MetricKind::{Counter, Gauge};
use amita_control::events::Severity;
use amita_types::condition::DiskLevel;
use amita_types::map::MirrorRole;

/// A number for the worst that is so, so that alerts can compare it.
fn level(worst: Option<Severity>) -> u64 {
    match worst {
        None | Some(Severity::Info) => 0,
        Some(Severity::Warning) => 1,
        Some(Severity::Error) => 2,
    }
}

pub(super) const METRICS: &[Metric] = &[
    Metric {
        name: "amita_health",
        help: "The cluster's health: 0 ok, 1 degraded, 2 blocked.",
        kind: Gauge,
        labels: &[],
        read: |view, out| view.figures(|found| out.value(&[], level(found.worst))),
    },
    Metric {
        name: "amita_health_facts",
        help: "Facts of each kind that are so now: see the list of facts.",
        kind: Gauge,
        labels: &["fact", "severity"],
        read: |view, out| {
            view.figures(|found| {
                for (kind, count) in &found.facts {
                    out.value(&[kind.name(), &kind.severity().to_string()], *count);
                }
            });
        },
    },
    Metric {
        name: "amita_nodes",
        help: "Nodes that hold their lease (alive), and those that do not (away).",
        kind: Gauge,
        labels: &["state"],
        read: |view, out| {
            view.figures(|found| {
                out.value(&["alive"], found.nodes_alive);
                out.value(&["away"], found.nodes_away);
            });
        },
    },
    Metric {
        name: "amita_volumes",
        help: "Volumes; those in the recycle bin are not counted.",
        kind: Gauge,
        labels: &[],
        read: |view, out| view.figures(|found| out.value(&[], found.volumes)),
    },
    Metric {
        name: "amita_pool_bytes",
        help: "Bytes of the pool's stores for data (raw), and of those what holds something (used), as the stores have last told.",
        kind: Gauge,
        labels: &["pool", "what"],
        read: |view, out| {
            view.figures(|found| {
                for pool in &found.pools {
                    out.value(&[&pool.name, "raw"], pool.raw_bytes);
                    out.value(&[&pool.name, "used"], pool.used_bytes);
                }
            });
        },
    },
    Metric {
        name: "amita_pool_fullest_ratio",
        help: "How full the pool's fullest store is, from 0 to 1: the pool is as full as that.",
        kind: Gauge,
        labels: &["pool"],
        read: |view, out| {
            view.figures(|found| {
                for pool in &found.pools {
                    if let Some(percent) = pool.fullest_percent {
                        out.value(&[&pool.name], f64::from(percent) / 100.0);
                    }
                }
            });
        },
    },
    Metric {
        name: "amita_pool_groups",
        help: "Placement groups of the pool by state: whole, degraded, at_min_copies, waiting (below among them); syncing and moving besides.",
        kind: Gauge,
        labels: &["pool", "state"],
        read: |view, out| {
            view.figures(|found| {
                for pool in &found.pools {
                    let groups = &pool.groups;
                    for (state, count) in [
                        ("whole", groups.whole),
                        ("degraded", groups.degraded),
                        ("at_min_copies", groups.at_min_copies),
                        ("waiting", groups.waiting),
                        ("below", groups.below),
                        ("syncing", groups.syncing),
                        ("moving", groups.moving),
                    ] {
                        out.value(&[&pool.name, state], count);
                    }
                }
            });
        },
    },
    Metric {
        name: "amita_store_info",
        help: "Always 1: which node serves the store, its class, and whether it is normal or draining.",
        kind: Gauge,
        labels: &["store", "node", "class", "duty"],
        read: |view, out| {
            view.figures(|found| {
                for store in &found.stores {
                    let duty = if store.draining { "draining" } else { "normal" };
                    out.value(&[&store.id.to_string(), &store.node, &store.class, duty], 1u64);
                }
            });
        },
    },
    Metric {
        name: "amita_disk_level",
        help: "What is to be done about a disk that is not well: 1 watch it, 2 move its copies away, 3 they are being moved or have been. Nothing of others.",
        kind: Gauge,
        labels: &["store", "node", "disk"],
        read: |view, out| {
            view.figures(|found| {
                for disk in &found.sick_disks {
                    let level: u64 = match disk.level {
                        DiskLevel::Warn => 1,
                        DiskLevel::Avoid => 2,
                        DiskLevel::Isolate => 3,
                    };
                    out.value(&[&disk.store.to_string(), &disk.node, &disk.disk], level);
                }
            });
        },
    },
    Metric {
        name: "amita_scrub_oldest_timestamp_seconds",
        help: "When the look at a volume's copies that lies furthest back was asked for, in seconds since 1970; of a volume that had none, when it was made.",
        kind: Gauge,
        labels: &[],
        read: |view, out| {
            view.figures(|found| {
                if let Some(at) = found.scrub_oldest_at {
                    out.value(&[], at);
                }
            });
        },
    },
    Metric {
        name: "amita_cluster_version",
        help: "The version of the metadata that was finalized (amita cluster finalize).",
        kind: Gauge,
        labels: &[],
        read: |view, out| view.figures(|found| out.value(&[], u64::from(found.version))),
    },
    // Policies of snapshots.
    Metric {
        name: "amita_policy_runs_total",
        help: "Runs of a snapshot policy that have ended.",
        kind: Counter,
        labels: &["policy"],
        read: |view, out| view.each_policy(out, |policy| policy.runs),
    },
    Metric {
        name: "amita_policy_snapshots_total",
        help: "Snapshots that a policy has taken and deleted.",
        kind: Counter,
        labels: &["policy", "what"],
        read: |view, out| {
            for policy in &view.report.policies {
                out.value(&[&policy.name, "taken"], policy.taken);
                out.value(&[&policy.name, "deleted"], policy.deleted);
            }
        },
    },
    Metric {
        name: "amita_policy_sets_total",
        help: "Sets of snapshots of one moment that a policy has taken, and those that have come to nothing.",
        kind: Counter,
        labels: &["policy", "what"],
        read: |view, out| {
            for policy in &view.report.policies {
                out.value(&[&policy.name, "taken"], policy.sets);
                out.value(&[&policy.name, "void"], policy.sets_void);
            }
        },
    },
    Metric {
        name: "amita_policy_failures_total",
        help: "Volumes of which a snapshot policy could not take or delete snapshots, run by run.",
        kind: Counter,
        labels: &["policy"],
        read: |view, out| view.each_policy(out, |policy| policy.failures),
    },
    Metric {
        name: "amita_policy_missed_total",
        help: "Times of a snapshot policy that have passed without a run.",
        kind: Counter,
        labels: &["policy"],
        read: |view, out| view.each_policy(out, |policy| policy.missed),
    },
    Metric {
        name: "amita_policy_failing",
        help: "Volumes of which something failed at the policy's last run.",
        kind: Gauge,
        labels: &["policy"],
        read: |view, out| view.each_policy(out, |policy| policy.failing),
    },
    Metric {
        name: "amita_policy_late_seconds",
        help: "For how long a run of the policy that is due has not begun, or does not end.",
        kind: Gauge,
        labels: &["policy"],
        read: |view, out| view.each_policy(out, |policy| policy.late_s),
    },
    Metric {
        name: "amita_policy_ended_timestamp_seconds",
        help: "When the policy's last run ended, in seconds since 1970.",
        kind: Gauge,
        labels: &["policy"],
        read: |view, out| view.each_policy(out, |policy| policy.ended_at),
    },
    // Policies of backups.
    Metric {
        name: "amita_backup_runs_total",
        help: "Runs of a backup policy that have ended.",
        kind: Counter,
        labels: &["policy"],
        read: |view, out| view.each_backup(out, |backup| backup.runs),
    },
    Metric {
        name: "amita_backup_failures_total",
        help: "Runs of a backup policy of which something failed in the end.",
        kind: Counter,
        labels: &["policy"],
        read: |view, out| view.each_backup(out, |backup| backup.failures),
    },
    Metric {
        name: "amita_backup_missed_total",
        help: "Times of a backup policy that have passed without a run.",
        kind: Counter,
        labels: &["policy"],
        read: |view, out| view.each_backup(out, |backup| backup.missed),
    },
    Metric {
        name: "amita_backup_points_total",
        help: "Points that a backup policy has made.",
        kind: Counter,
        labels: &["policy"],
        read: |view, out| view.each_backup(out, |backup| backup.points),
    },
    Metric {
        name: "amita_backup_forgotten_points_total",
        help: "Points that a backup policy has given up, because no rule keeps them.",
        kind: Counter,
        labels: &["policy"],
        read: |view, out| view.each_backup(out, |backup| backup.forgotten),
    },
    Metric {
        name: "amita_backup_read_bytes_total",
        help: "Bytes that were read of volumes for the points of a backup policy.",
        kind: Counter,
        labels: &["policy"],
        read: |view, out| view.each_backup(out, |backup| backup.read_bytes),
    },
    Metric {
        name: "amita_backup_sent_bytes_total",
        help: "Bytes of packs that went to the repository for the points of a backup policy.",
        kind: Counter,
        labels: &["policy"],
        read: |view, out| view.each_backup(out, |backup| backup.sent_bytes),
    },
    Metric {
        name: "amita_backup_running",
        help: "Is a node at the backup policy at present (1) or none (0)?",
        kind: Gauge,
        labels: &["policy"],
        read: |view, out| view.each_backup(out, |backup| u64::from(backup.running)),
    },
    Metric {
        name: "amita_backup_failing",
        help: "What failed at the backup policy's last run, or at the last attempts of the one that is tried again; 1 where the policy cannot be understood, or clocks do not agree. 0 while it is paused.",
        kind: Gauge,
        labels: &["policy"],
        read: |view, out| view.each_backup(out, |backup| backup.failing),
    },
    Metric {
        name: "amita_backup_late_seconds",
        help: "For how long a run of the backup policy that is due has not begun, is not gone on with, or does not end within its limit.",
        kind: Gauge,
        labels: &["policy"],
        read: |view, out| view.each_backup(out, |backup| backup.late_s),
    },
    Metric {
        name: "amita_backup_success_timestamp_seconds",
        help: "When the last run of the backup policy ended of which nothing failed, in seconds since 1970; before the first one, when the policy was made or its schedule was changed.",
        kind: Gauge,
        labels: &["policy"],
        read: |view, out| view.each_backup(out, |backup| backup.succeeded_at),
    },
    Metric {
        name: "amita_backup_verifications_total",
        help: "Verifications of a backup policy's repository that have ended.",
        kind: Counter,
        labels: &["policy"],
        read: |view, out| view.each_verified(out, |verified| verified.runs),
    },
    Metric {
        name: "amita_backup_verification_failures_total",
        help: "Verifications of a backup policy's repository that did not come to their end; what they find is no failure.",
        kind: Counter,
        labels: &["policy"],
        read: |view, out| view.each_verified(out, |verified| verified.failures),
    },
    Metric {
        name: "amita_backup_verified_bytes_total",
        help: "Bytes of packs that were read by verifications of a backup policy's repository.",
        kind: Counter,
        labels: &["policy"],
        read: |view, out| view.each_verified(out, |verified| verified.read_bytes),
    },
    Metric {
        name: "amita_backup_damaged_objects",
        help: "Objects of a backup policy's repository that its verifications found damaged or missing, and that were not found whole since.",
        kind: Gauge,
        labels: &["policy"],
        read: |view, out| view.each_verified(out, |verified| verified.damaged),
    },
    Metric {
        name: "amita_backup_damaged_points",
        help: "Points of a backup policy's repository that were not whole at its last verification: a restore of them ends with an error.",
        kind: Gauge,
        labels: &["policy"],
        read: |view, out| view.each_verified(out, |verified| verified.points_lost),
    },
    Metric {
        name: "amita_backup_verification_late_seconds",
        help: "For how long a verification of the backup policy's repository that is due has not begun, is not gone on with, or does not end within its limit.",
        kind: Gauge,
        labels: &["policy"],
        read: |view, out| view.each_verified(out, |verified| verified.late_s),
    },
    Metric {
        name: "amita_backup_verification_timestamp_seconds",
        help: "When the last verification of the backup policy's repository came to its end, in seconds since 1970; before the first one, when it was said that it be verified, or its schedule was changed.",
        kind: Gauge,
        labels: &["policy"],
        read: |view, out| view.each_verified(out, |verified| verified.ended_at),
    },
    Metric {
        name: "amita_backup_verified_whole_timestamp_seconds",
        help: "All that was in the backup policy's repository then, in seconds since 1970, has been read by verifications since.",
        kind: Gauge,
        labels: &["policy"],
        read: |view, out| view.each_verified(out, |verified| verified.whole_since),
    },
    // Tasks of backups.
    Metric {
        name: "amita_backup_tasks",
        help: "Backup tasks of each kind (backup, restore, forget) and state, as far as their records are kept: those that have ended stay until they are removed, or the oldest has to make room.",
        kind: Gauge,
        labels: &["kind", "state"],
        read: |view, out| {
            view.figures(|found| {
                for tasks in &found.backup_tasks {
                    for (state, count) in &tasks.states {
                        out.value(&[tasks.kind, state.text()], *count);
                    }
                }
            });
        },
    },
    Metric {
        name: "amita_backup_task_oldest_timestamp_seconds",
        help: "When the oldest backup task of the kind and state was asked for that has not ended, in seconds since 1970; nothing where there is none.",
        kind: Gauge,
        labels: &["kind", "state"],
        read: |view, out| {
            view.figures(|found| {
                for tasks in &found.backup_tasks {
                    for (state, at) in &tasks.oldest {
                        out.value(&[tasks.kind, state.text()], *at);
                    }
                }
            });
        },
    },
    Metric {
        name: "amita_backup_task_late_seconds",
        help: "For how long the backup task of the kind that is late longest has not moved: no node is at it nor at another one of its repository, or one is for longer than its limit.",
        kind: Gauge,
        labels: &["kind"],
        read: |view, out| view.each_backup_task(out, |tasks| tasks.late_s),
    },
    Metric {
        name: "amita_backup_task_done_timestamp_seconds",
        help: "When the last backup task of the kind was done, in seconds since 1970, as far as its record is kept.",
        kind: Gauge,
        labels: &["kind"],
        read: |view, out| view.each_backup_task(out, |tasks| tasks.done_at),
    },
    Metric {
        name: "amita_backup_task_duration_seconds",
        help: "How long the last backup task of the kind took that was done, from when it was asked for.",
        kind: Gauge,
        labels: &["kind"],
        read: |view, out| view.each_backup_task(out, |tasks| tasks.took_s),
    },
    // Mirrors: this cluster's ends.
    Metric {
        name: "amita_mirror_role",
        help: "What this cluster's end of a mirror is: 1 for that role, 0 for the others.",
        kind: Gauge,
        labels: &["mirror", "role"],
        read: |view, out| {
            view.figures(|found| {
                for mirror in &found.mirrors {
                    for role in MirrorRole::ALL {
                        out.value(&[&mirror.name, role.text()], u64::from(*role == mirror.role));
                    }
                }
            });
        },
    },
    Metric {
        name: "amita_mirror_lag_seconds",
        help: "How old the point is that the secondary of a mirror is at, as this end knows; nothing where there is none.",
        kind: Gauge,
        labels: &["mirror"],
        read: |view, out| {
            view.figures(|found| {
                for mirror in &found.mirrors {
                    if let Some(lag_s) = mirror.lag_s {
                        out.value(&[&mirror.name], lag_s);
                    }
                }
            });
        },
    },
    Metric {
        name: "amita_mirror_left_bytes",
        help: "Bytes of the volumes of a mirror that were not looked at yet in the pass under way; 0 where there is none.",
        kind: Gauge,
        labels: &["mirror"],
        read: |view, out| {
            view.figures(|found| {
                for mirror in &found.mirrors {
                    out.value(&[&mirror.name], mirror.left_bytes);
                }
            });
        },
    },
];
