//! Jobs that an operator has paused, and what waits for them.

use super::{Fact, Kind, Picture};
use amita_types::condition::{DiskLevel, SickDisk};
use amita_types::map::{Paused, StoreDuty};

/// The drain of a disk that predicts its failure may stand still for so long, in seconds.
const DRAIN_S: u64 = 3600;
/// All copies are looked at so often, in seconds, where nodes are not told otherwise (`--scrub-days`). A look that was asked for longer ago,
/// and stands still, is late: as long as it is under way no other one is asked for.
const SCRUB_S: u64 = 14 * 24 * 3600;

/// How long, so coarse that the sentence stays the same for a while.
fn coarse(seconds: u64) -> String {
    match (seconds / 86_400, seconds / 3600) {
        (0, 0) => "less than an hour".to_owned(),
        (0, 1) => "an hour".to_owned(),
        (0, hours) => format!("{hours} hours"),
        (1, _) => "a day".to_owned(),
        (days, _) => format!("{days} days"),
    }
}

impl Picture<'_> {
    pub(super) fn of_jobs(&self, facts: &mut Vec<Fact>) {
        for found in self.stores.iter().filter(|found| found.named > 0) {
            let (id, left) = (found.store.id, found.named);
            let Some(paused) = &found.store.paused else { continue };
            if found.store.duty != StoreDuty::Draining {
                continue;
            }
            let fails = |sick: &SickDisk| sick.store == id && sick.level >= DiskLevel::Avoid;
            let is_overdue = self.passed(paused.at) >= DRAIN_S && self.sick_disks.iter().any(fails);
            let why = if is_overdue {
                " Its disk predicts its failure."
            } else {
                ""
            };
            let what = format!("The drain of store {id}");
            let rest = format!(", and {left} groups are to go.{why}");
            facts.push(self.of_job(
                [&format!("drain-{id}"), &id.to_string()],
                &what,
                paused,
                &rest,
                is_overdue,
            ));
        }
        for (volume, scrub) in self.paused_scrubs {
            let Some(found) = self.volumes.iter().find(|found| found.volume.id == *volume) else {
                continue;
            };
            let Some(paused) = &scrub.paused else { continue };
            let asked_s = self.passed(scrub.requested_at);
            let is_overdue = asked_s >= SCRUB_S;
            let rest = match is_overdue {
                true => format!(
                    ". It was asked for {} ago, and until it ends no other one is: damage that nobody reads is not found.",
                    coarse(asked_s)
                ),
                false => ".".to_owned(),
            };
            let (name, id) = (&found.volume.name, format!("scrub-{volume}"));
            facts.push(self.of_job(
                [&id, name],
                &format!("The scrub of volume {name}"),
                paused,
                &rest,
                is_overdue,
            ));
        }
        for found in self.volumes {
            let Some(flatten) = &found.flatten else { continue };
            let Some(paused) = &flatten.paused else { continue };
            let (name, id) = (&found.volume.name, format!("flatten-{}", flatten.volume));
            let what = format!("The flattening of volume {name}");
            let rest = ", and what the volume was made from keeps what it holds.";
            facts.push(self.of_job([&id, name], &what, paused, rest, false));
        }
    }

    /// Seconds since then.
    fn passed(&self, at: u64) -> u64 {
        self.at.saturating_sub(at)
    }

    fn of_job(&self, objects: [&String; 2], what: &str, paused: &Paused, rest: &str, is_overdue: bool) -> Fact {
        let kind = if is_overdue { Kind::JobOverdue } else { Kind::JobPaused };
        let (by, since) = (paused.by.escape_debug(), coarse(self.passed(paused.at)));
        let [id, _] = objects;
        Fact::new(
            kind,
            objects,
            format!("{what} stands still: {by} has paused it {since} ago{rest}"),
            &format!("`amita job resume {id}` lets it go on, `amita job cancel {id}` takes it back."),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{names, store, volume};
    use super::super::{judge, word};
    use super::*;
    use amita_types::map::{Flatten, Scrub};
    use amita_types::{StoreId, VolumeId};

    const HOUR: u64 = 3600;
    const AT: u64 = 100 * 24 * HOUR;

    fn paused(ago_s: u64) -> Option<Paused> {
        Some(Paused {
            by: "ann\n".to_owned(),
            at: AT - ago_s,
        })
    }

    fn drain(ago_s: u64, sick: &[SickDisk]) -> Vec<Fact> {
        let mut own = store(2, 10);
        (own.store.duty, own.store.paused) = (StoreDuty::Draining, paused(ago_s));
        judge(&Picture {
            stores: &[own],
            sick_disks: sick,
            at: AT,
            ..Picture::default()
        })
    }

    #[test]
    fn a_drain_that_stands_still_is_a_note_and_a_warning_where_its_disk_fails() {
        let facts = drain(50 * HOUR, &[]);
        assert_eq!((names(&facts), word(&facts)), (vec!["job-paused"], "ok"));
        let id = StoreId(2);
        assert_eq!(facts[0].objects, [format!("drain-{id}"), id.to_string()]);
        let said = facts[0].to_string();
        for part in [
            format!("The drain of store {id} stands still: ann\\n has paused it 2 days ago, and 1 groups"),
            format!("`amita job resume drain-{id}`"),
        ] {
            assert!(said.contains(&part), "{part}: {said}");
        }
        let sick = |level| SickDisk {
            store: id,
            disk: "sda".to_owned(),
            level,
            codes: Vec::new(),
            evidence: String::new(),
            since: 1,
            told_at: 1,
            decision: String::new(),
            failing_since: None,
            drained_at: None,
            better_since: None,
        };
        let isolated = [sick(DiskLevel::Isolate)];
        assert_eq!(names(&drain(HOUR - 1, &isolated)), ["disk-failing", "job-paused"]);
        let facts = drain(HOUR, &isolated);
        assert_eq!(names(&facts), ["disk-failing", "job-overdue"]);
        assert!(facts[1].text.contains("an hour ago") && facts[1].text.contains("predicts its failure"));
        assert_eq!(
            names(&drain(HOUR, &[sick(DiskLevel::Warn)])),
            ["disk-aging", "job-paused"]
        );
    }

    fn scrub(asked_s: u64, paused_s: u64, volume_id: u64) -> Vec<Fact> {
        let scrub = Scrub {
            requested: 1,
            requested_at: AT - asked_s,
            paused: paused(paused_s),
            ..Scrub::default()
        };
        let facts = judge(&Picture {
            volumes: &[volume("main")],
            paused_scrubs: &[(VolumeId(volume_id), scrub)],
            at: AT,
            ..Picture::default()
        });
        facts.into_iter().filter(|fact| fact.name.starts_with("job-")).collect()
    }

    #[test]
    fn a_scrub_that_stands_still_is_a_warning_when_the_next_one_would_be_due() {
        let facts = scrub(13 * 24 * HOUR, 10 * 24 * HOUR, 3);
        assert_eq!(names(&facts), ["job-paused"]);
        assert!(
            facts[0].text.ends_with("has paused it 10 days ago."),
            "{}",
            facts[0].text
        );
        assert_eq!(facts[0].objects, ["scrub-3", "disk0"]);
        let facts = scrub(14 * 24 * HOUR, 10, 3);
        assert_eq!((names(&facts), word(&facts)), (vec!["job-overdue"], "degraded"));
        let said = &facts[0].text;
        assert!(
            said.contains("less than an hour ago. It was asked for 14 days ago"),
            "{said}"
        );
        assert!(
            scrub(20 * 24 * HOUR, 10, 4).is_empty(),
            "of a volume that is gone nobody needs to hear"
        );
    }

    #[test]
    fn a_flattening_that_stands_still_is_a_note() {
        let mut clone = volume("main");
        clone.flatten = Some(Flatten {
            volume: VolumeId(3),
            asked_at: 1,
            chunks: 10,
            done: 2,
            ails: None,
            paused: paused(99 * 24 * HOUR),
        });
        let facts = judge(&Picture {
            volumes: &[clone],
            at: AT,
            ..Picture::default()
        });
        let own: Vec<&Fact> = facts.iter().filter(|fact| fact.name == "job-paused").collect();
        assert_eq!(
            (own.len(), own[0].objects.as_slice()),
            (1, &["flatten-3".to_owned(), "disk0".to_owned()][..])
        );
    }
}
