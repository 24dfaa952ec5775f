//! Latency against load: I/Os that come by chance at a rate, as those of many users do, and do not wait for each other.
//! Each one's latency counts from the time at which it was to start, so that a stall is felt by all that came
//! meanwhile.

use crate::case::{Case, Front, Load, Mix};
use crate::measure::{Measure, SystemUnderTest};
use crate::plot::{self, Point};
use crate::report::Figures;
use crate::row::Row;
use amita_terminal::error::Result;
use amita_terminal::progress::Steps;
use std::path::Path;

/// Shares of the peak that are asked for, in percent.
const LOADS: [u32; 5] = [10, 30, 50, 70, 90];
/// The one that is judged, and what the slowest of a thousand may take there, in medians.
const JUDGED: u32 = 70;
const P999_RATIO: f64 = 4.0;

/// Measures both directions, and draws them into `folder`.
///
/// # Errors
/// When an I/O fails, or a picture cannot be written.
pub fn measure(
    steps: &mut Steps,
    measure: &mut Measure,
    system: &mut dyn SystemUnderTest,
    folder: &Path,
    figures: &mut Figures,
) -> Result<()> {
    for mix in [Mix::Write, Mix::Read] {
        let mut peak = 0f64;
        for depth in [32, 128] {
            let row = measure.case(steps, system, &Case::new(Front::Libamita, mix, depth), false)?;
            peak = peak.max(row.iops);
        }
        for load in LOADS {
            let mut case = Case::new(Front::Libamita, mix, 1);
            case.load = Some(Load {
                percent: load,
                rate: (peak * f64::from(load) / 100.0).round(),
            });
            let row = measure.case(steps, system, &case, false)?;
            let latency = row.latency();
            let (name, label) = (
                format!("curve.{mix}.load{load}"),
                format!("4K random {mix}, libamita, at {load} % of its peak"),
            );
            figures.note(&format!("{name}.p50_us"), &format!("{label}: p50"), latency.p50, "us");
            figures.note(
                &format!("{name}.p999_us"),
                &format!("{label}: p99.9"),
                latency.p999,
                "us",
            );
            if load == JUDGED {
                let ratio = latency.p999 / latency.p50.max(1e-3);
                let label = format!("{label}: p99.9 over p50");
                figures.at_most(&format!("{name}.p999_ratio"), &label, ratio, "", P999_RATIO);
            }
        }
        figures.note(
            &format!("curve.{mix}.peak_iops"),
            &format!("4K random {mix}, libamita: peak"),
            peak,
            "IOPS",
        );
        let picture = folder.join(format!("latency-{mix}.svg"));
        plot::write(&picture, &title(mix), &points(measure.rows(), mix))?;
    }
    Ok(())
}

/// What a picture is called.
#[must_use]
pub fn title(mix: Mix) -> String {
    format!("4 KiB random {mix}, three copies, libamita: latency against load")
}

/// What the rows say of latency against load.
#[must_use]
pub fn points(rows: &[Row], mix: Mix) -> Vec<Point> {
    let loads = rows.iter().filter(|row| row.case.load.is_some() && row.case.mix == mix);
    loads
        .map(|row| {
            let latency = row.latency();
            Point {
                iops: row.iops,
                p50_us: latency.p50,
                p99_us: latency.p99,
                p999_us: latency.p999,
            }
        })
        .collect()
}
