//! What SATA and SAS disks say of their health.

use super::disks::{HOT_C, grows, wear};
use crate::code::{Check, Code};
use crate::forecast;
use crate::inventory::{CommandSet, Device, Known, Sample, Smart};
use crate::sheet::{Place, Severity, Sheet};

/// Fewer damaged frames than these come from a cable that was once pulled.
const LINK_ERRORS: u64 = 100;

/// What of a disk's past is compared with what it says now.
struct Counted {
    name: &'static str,
    now: fn(&Smart) -> Option<u64>,
    past: fn(&Sample) -> Option<u64>,
}

const COUNTED: [Counted; 3] = [
    Counted {
        name: "reallocated sectors",
        now: |own| own.reallocated,
        past: |past| past.reallocated,
    },
    Counted {
        name: "pending sectors",
        now: |own| own.pending,
        past: |past| past.pending,
    },
    Counted {
        name: "uncorrectable errors",
        now: |own| own.uncorrectable,
        past: |past| past.uncorrectable,
    },
];

pub(super) fn judge(now: u64, own: &Smart, device: &Device, samples: &[Sample], place: &Place, sheet: &mut Sheet) {
    let mut blind = |why: &str| sheet.blind(Check::Wear, place.clone(), why);
    if own.failing.is_none() {
        blind("whether it predicts its failure: it does not tell");
    }
    if own.temperature_c.is_none() {
        blind("its temperature: it does not tell");
    }
    if own.failing == Some(true) {
        let reason = format!("it predicts its failure: {}", own.because);
        sheet.find(Code::DiskPredictsFailure, place.clone(), reason);
    }
    let mut do_grow = false;
    for counted in &COUNTED {
        let Some(count) = (counted.now)(own) else { continue };
        let counts = forecast::counts(samples, now, count, counted.past);
        do_grow |= grows(counted.name, &counts, place, sheet);
    }
    if !do_grow {
        sectors(own, place, sheet);
    }
    if own.by == CommandSet::Ata
        && let Some(errors) = own.link_errors.filter(|errors| *errors >= LINK_ERRORS)
    {
        let reason = format!("its link has damaged {errors} frames since it was made (attribute 199)");
        sheet.find(Code::DiskLinkErrors, place.clone(), reason);
    }
    let hot = own.warns_at_c.unwrap_or(HOT_C);
    if let Some(degrees) = own.temperature_c.filter(|degrees| *degrees >= hot) {
        let reason = format!("{degrees} degrees Celsius; from {hot} on it is too hot");
        sheet.find(Code::DiskHot, place.clone(), reason);
    }
    match (own.used_percent, own.on_hours) {
        (Some(used), hours) => wear(now, used, hours.unwrap_or(0), samples, place, sheet),
        // What turns does not wear so.
        (None, _) if device.rotational == Known::Is(true) => {}
        (None, _) => sheet.blind(
            Check::Wear,
            place.clone(),
            "how worn it is: it does not tell, or in a way that nobody here knows of its vendor",
        ),
    }
}

fn sectors(own: &Smart, place: &Place, sheet: &mut Sheet) {
    let counts = [
        (own.pending, "cannot be read"),
        (own.uncorrectable, "could not be corrected"),
        (own.reallocated, "were replaced by spare ones"),
    ];
    if counts.iter().all(|(count, _)| count.is_none()) {
        let why = "how many sectors are bad: it does not tell";
        sheet.blind(Check::Wear, place.clone(), why);
    }
    let words: Vec<String> = counts
        .iter()
        .filter_map(|(count, what)| Some((count.filter(|count| *count > 0)?, what)))
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    if words.is_empty() {
        return;
    }
    let is_unread = [own.pending, own.uncorrectable]
        .into_iter()
        .flatten()
        .any(|count| count > 0);
    let severity = if is_unread { Severity::Warning } else { Severity::Notice };
    let reason = format!("of its sectors {}", words.join(", "));
    sheet.find_as(Code::DiskBadSectors, severity, place.clone(), reason);
}
