//! Mirrors that are late, stand still, hear nothing of the other end, or have no end that both of them follow.

use super::{Fact, Kind, Picture};
use crate::mirror::MirrorView;

/// The other end is looked at every few seconds: who has not heard of it for so long does not.
const UNHEARD_S: u64 = 120;

/// How old the point is that the secondary is at, in seconds, as either end knows: the one that follows by what it was told, and the primary by its
/// own clock. None: there is no such point, or this end neither follows nor is followed.
#[must_use]
pub fn lag_s(found: &MirrorView, at: u64) -> Option<u64> {
    match found.role.as_str() {
        "secondary" if !found.handed => found.lag_s,
        "primary" => {
            let seen = found.seen.as_ref().filter(|seen| seen.role == "secondary")?;
            let point = seen.point.as_ref()?;
            let own = found.points.iter().position(|own| own.name == *point)?;
            // Those behind it were cut later. Where the clock was set back since it was cut, its own time is of the future.
            found.points[own..]
                .iter()
                .map(|own| at.saturating_sub(own.cut_at))
                .max()
        }
        _ => None,
    }
}

/// Since when a secondary that has no point yet could have one, as far as either end knows: when what it is brought was cut, or the mirror was paused.
fn without_point_since(found: &MirrorView) -> Option<u64> {
    match found.role.as_str() {
        "secondary" if !found.handed && found.point.is_none() => {
            let begun = found.pass.as_ref().map(|pass| pass.cut_at);
            begun.or(found.paused.as_ref().map(|paused| paused.at))
        }
        "primary" => {
            found
                .seen
                .as_ref()
                .filter(|seen| seen.role == "secondary" && seen.point.is_none())?;
            found.points.iter().map(|point| point.cut_at).min()
        }
        _ => None,
    }
}

/// Why a mirror is told as unheard: in words. None: it is heard, or is joined by nobody yet.
fn unheard(found: &MirrorView, at: u64) -> Option<String> {
    let name = &found.name;
    let Some(seen) = &found.seen else {
        let known = found.peer.cluster.as_ref()?;
        return Some(format!(
            "Mirror {name} has never heard of its other end, cluster {known}"
        ));
    };
    // It is noted where it is heard, by whichever node: what was noted for later than now was noted before the clock was set back.
    if seen.at > at.saturating_add(UNHEARD_S) {
        return Some(format!(
            "Mirror {name} has heard nothing of its other end since the clock was set back here"
        ));
    }
    let silent = at.saturating_sub(seen.at);
    (silent > UNHEARD_S.max(found.late_after_s))
        .then(|| format!("Mirror {name} has heard nothing of its other end for {silent} s"))
}

/// How many bytes of the pass under way were not looked at yet.
#[must_use]
pub fn left_bytes(found: &MirrorView) -> u64 {
    let volumes = found.pass.iter().flat_map(|pass| &pass.volumes);
    volumes
        .map(|volume| volume.total_bytes.saturating_sub(volume.done_bytes))
        .fold(0, u64::saturating_add)
}

impl Picture<'_> {
    pub(super) fn of_mirrors(&self, facts: &mut Vec<Fact>) {
        for found in self.mirrors {
            let name = &found.name;
            let show = format!("See `amita mirror show {name}`.");
            let mut tell = |kind, text: String, advice: &str| facts.push(Fact::new(kind, [name], text, advice));
            let other = found.seen.as_ref();
            let is_primary = found.role == "primary";
            if found.role == "deposed" {
                tell(
                    Kind::MirrorDeposed,
                    format!(
                        "Mirror {name} was deposed here: the other end was promoted by force, and this one has what that has not. Its volumes are \
                         closed to hosts."
                    ),
                    &format!(
                        "`amita mirror resync {name}` gives that up and follows, and keeps it as snapshots; `amita mirror promote {name} --force` \
                         keeps it, and deposes the other end."
                    ),
                );
            }
            let both = is_primary && other.is_some_and(|seen| seen.role == "primary");
            if found.split || both {
                tell(
                    Kind::MirrorSplit,
                    format!(
                        "Both ends of mirror {name} may have been written: one was promoted by force, and they have not agreed since."
                    ),
                    "Keep hosts from the end that is not to stand; when it is heard, `amita mirror resync` there.",
                );
            }
            // What the other end has said is a part of it.
            let ails = found.ails.as_ref().map(|why| why.escape_debug().to_string());
            let ails = ails.map(|why| why.trim_end_matches('.').to_owned());
            if let Some(why) = &ails {
                tell(
                    Kind::MirrorStalled,
                    format!("Mirror {name} does not go on: {why}."),
                    &show,
                );
            }
            if let Some(text) = unheard(found, self.at) {
                let (text, advice) = match &ails {
                    Some(why) => (
                        format!("{text}: {why}."),
                        "Mend that; where nobody answers, see whether that cluster lives, and whether its API is reached from the nodes here.",
                    ),
                    None => (
                        format!("{text}."),
                        "See whether that cluster lives, and whether its API is reached from the nodes here.",
                    ),
                };
                tell(Kind::MirrorUnheard, text, advice);
            }
            let without = without_point_since(found).map(|since| self.at.saturating_sub(since));
            if let Some(since) = without.filter(|since| *since > found.late_after_s) {
                tell(
                    Kind::MirrorLate,
                    format!(
                        "Mirror {name} is late: the secondary has no point yet, and could have one of {since} s ago; it cannot be promoted before."
                    ),
                    &show,
                );
            }
            if let Some(lag) = lag_s(found, self.at).filter(|lag| *lag > found.late_after_s) {
                let why = match (&found.paused, is_primary) {
                    (Some(_), _) => " It was paused here.",
                    _ => "",
                };
                tell(
                    Kind::MirrorLate,
                    format!("Mirror {name} is late: what the secondary has is {lag} s old.{why}"),
                    &show,
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::names;
    use super::super::{judge, word};
    use super::*;
    use crate::mirror::{PassView, PauseView, PeerView, PointView, SeenView};

    const AT: u64 = 1_800_000_000;

    fn mirror(role: &str) -> MirrorView {
        MirrorView {
            name: "dr".to_owned(),
            id: "0f8fad5b-d9cb-469f-a165-70867728950e".to_owned(),
            role: role.to_owned(),
            epoch: 0,
            point: None,
            points: vec![PointView {
                name: "0-7".to_owned(),
                cut_at: AT - 200,
                snapshots: "mirror-dr-0-7".to_owned(),
            }],
            handed: false,
            split: false,
            paused: None,
            ails: None,
            pass: None,
            volumes: vec!["db".to_owned()],
            peer: PeerView {
                cluster: None,
                addresses: Vec::new(),
            },
            seen: None,
            lag_s: None,
            late_after_s: 180,
            interval_s: 60,
            keep: 3,
            limit_bytes_per_second: None,
            alert_after_s: None,
            never_deposed: false,
        }
    }

    fn seen(role: &str, ago_s: u64) -> Option<SeenView> {
        Some(SeenView {
            role: role.to_owned(),
            epoch: 0,
            point: Some("0-7".to_owned()),
            handed: false,
            at: AT - ago_s,
        })
    }

    fn pass(cut_at: u64) -> PassView {
        PassView {
            to: "0-8".to_owned(),
            cut_at,
            base: None,
            volumes: Vec::new(),
        }
    }

    fn facts(found: MirrorView) -> Vec<Fact> {
        judge(&Picture {
            mirrors: &[found],
            at: AT,
            ..Picture::default()
        })
    }

    #[test]
    fn one_that_nobody_has_joined_or_that_is_in_time_is_no_fact() {
        assert!(facts(mirror("primary")).is_empty());
        let first = MirrorView {
            seen: seen("primary", 1),
            pass: Some(pass(AT - 180)),
            ..mirror("secondary")
        };
        assert!(facts(first).is_empty(), "its first point is brought");
        let well = MirrorView {
            lag_s: Some(180),
            seen: seen("primary", 180),
            ..mirror("secondary")
        };
        assert!(facts(well).is_empty());
    }

    #[test]
    fn both_ends_say_that_it_is_late_and_neither_where_it_was_handed_over() {
        let late = MirrorView {
            lag_s: Some(181),
            seen: seen("primary", 1),
            ..mirror("secondary")
        };
        let told = facts(late.clone());
        assert_eq!((names(&told), word(&told)), (vec!["mirror-late"], "degraded"));
        assert!(told[0].text.ends_with("is 181 s old."), "{}", told[0].text);
        let paused = MirrorView {
            paused: Some(PauseView {
                by: "ann".to_owned(),
                at: AT - 1,
            }),
            ..late.clone()
        };
        assert!(facts(paused)[0].text.ends_with("It was paused here."));
        assert!(facts(MirrorView { handed: true, ..late }).is_empty());
        let near = MirrorView {
            seen: seen("secondary", 1),
            ..mirror("primary")
        };
        let told = facts(near);
        assert_eq!(names(&told), ["mirror-late"]);
        assert!(told[0].text.contains("200 s old"), "{}", told[0].text);
    }

    #[test]
    fn one_that_was_never_heard_or_has_no_point_for_long_is_told_by_both_ends() {
        let known = PeerView {
            cluster: Some("c9".to_owned()),
            addresses: Vec::new(),
        };
        for role in ["primary", "secondary"] {
            let told = facts(MirrorView {
                peer: known.clone(),
                ails: Some("the other end does not answer".to_owned()),
                ..mirror(role)
            });
            assert_eq!(names(&told), ["mirror-stalled", "mirror-unheard"], "{role}");
            let text = &told[1].text;
            assert!(
                text.contains("never") && text.contains("c9") && text.ends_with("does not answer."),
                "{text}"
            );
        }
        let far = MirrorView {
            seen: seen("primary", 1),
            pass: Some(pass(AT - 181)),
            ..mirror("secondary")
        };
        let mut none = seen("secondary", 1);
        if let Some(seen) = &mut none {
            seen.point = None;
        }
        let near = MirrorView {
            seen: none,
            ..mirror("primary")
        };
        for late in [far, near] {
            let told = facts(late);
            assert_eq!(names(&told), ["mirror-late"]);
            assert!(told[0].text.contains("no point yet"), "{}", told[0].text);
        }
    }

    #[test]
    fn a_clock_that_was_set_back_hides_neither_silence_nor_lag() {
        let heard = SeenView {
            at: AT + 7200,
            ..seen("primary", 0).expect("one")
        };
        let told = facts(MirrorView {
            seen: Some(heard),
            ..mirror("secondary")
        });
        assert_eq!(names(&told), ["mirror-unheard"]);
        let point = |name: &str, cut_at| PointView {
            name: name.to_owned(),
            cut_at,
            snapshots: String::new(),
        };
        let near = MirrorView {
            points: vec![point("0-7", AT + 7200), point("0-8", AT - 200), point("0-9", AT - 100)],
            seen: seen("secondary", 1),
            ..mirror("primary")
        };
        assert_eq!(lag_s(&near, AT), Some(200));
    }

    #[test]
    fn what_is_not_heard_stalls_or_is_split_is_told_without_what_others_have_written() {
        let told = facts(MirrorView {
            seen: seen("primary", 181),
            ails: Some("the other end says \"\u{1b}[2J\".".to_owned()),
            ..mirror("secondary")
        });
        assert_eq!(names(&told), ["mirror-stalled", "mirror-unheard"]);
        assert!(
            !told[0].text.contains('\u{1b}') && !told[0].text.contains(".."),
            "{}",
            told[0].text
        );
        let told = facts(MirrorView {
            seen: seen("primary", 1),
            ..mirror("primary")
        });
        assert_eq!(names(&told), ["mirror-split"]);
        let told = facts(mirror("deposed"));
        assert_eq!(names(&told), ["mirror-deposed"]);
        assert!(told[0].advice.contains("amita mirror resync dr"), "{}", told[0].advice);
    }

    #[test]
    fn what_is_left_of_a_pass_is_what_was_not_looked_at() {
        use crate::mirror::PassVolumeView;
        let volume = |done_bytes, total_bytes| PassVolumeView {
            name: "db".to_owned(),
            done_bytes,
            total_bytes,
            written_bytes: 1,
            whole: false,
        };
        let found = MirrorView {
            pass: Some(PassView {
                to: "0-8".to_owned(),
                cut_at: AT,
                base: None,
                volumes: vec![volume(3, 10), volume(5, 5)],
            }),
            ..mirror("secondary")
        };
        assert_eq!((left_bytes(&found), left_bytes(&mirror("primary"))), (7, 0));
    }
}
