//! A picture of latency against load, as SVG: written by hand, for it is some lines and some words.

use amita_terminal::error::{Context, Result};
use std::fmt::Write as _;
use std::path::Path;

/// What was measured at one load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// I/Os a second.
    pub iops: f64,
    /// Half are faster, in microseconds.
    pub p50_us: f64,
    /// 99 of 100 are faster.
    pub p99_us: f64,
    /// 999 of 1000 are faster.
    pub p999_us: f64,
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 90.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 50.0;

/// One line of the picture: its name, its colour (told apart by those who see few, too), and what it shows.
type Line = (&'static str, &'static str, fn(&Point) -> f64);
const LINES: [Line; 3] = [
    ("p50", "#0072b2", |point| point.p50_us),
    ("p99", "#e69f00", |point| point.p99_us),
    ("p99.9", "#d55e00", |point| point.p999_us),
];

/// Writes the picture.
///
/// # Errors
/// When the file cannot be written.
pub fn write(path: &Path, title: &str, points: &[Point]) -> Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).context(|| format!("cannot make {}", folder.display()))?;
    }
    std::fs::write(path, svg(title, points)).context(|| format!("cannot write {}", path.display()))
}

/// The picture: loads from left to right, latencies upwards by powers of ten.
#[must_use]
pub fn svg(title: &str, points: &[Point]) -> String {
    let mut points = points.to_vec();
    points.sort_by(|a, b| a.iops.total_cmp(&b.iops));
    let most = points.iter().map(|point| point.iops).fold(1.0, f64::max) * 1.05;
    let values = || points.iter().flat_map(|point| LINES.map(|(_, _, of)| of(point)));
    let low = values().filter(|value| *value > 0.0).fold(f64::MAX, f64::min);
    let low = if low == f64::MAX { 1.0 } else { low }.log10().floor();
    let high = values().fold(1.0, f64::max).log10().ceil().max(low + 1.0);
    let x = |iops: f64| LEFT + (WIDTH - LEFT - RIGHT) * iops / most;
    let y = |us: f64| {
        let share = (us.max(1e-3).log10() - low) / (high - low);
        HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share
    };
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"24\" font-size=\"15\">{}</text>\n",
        escape(title)
    );
    // Writing into a String cannot fail.
    let mut line = |text: std::fmt::Arguments<'_>| {
        let _ = writeln!(out, "{text}");
    };
    for power in low as i32..=high as i32 {
        let at = y(10f64.powi(power));
        let right = WIDTH - RIGHT;
        line(format_args!(
            "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#ddd\"/>"
        ));
        let (left, below) = (LEFT - 8.0, at + 4.0);
        line(format_args!(
            "<text x=\"{left}\" y=\"{below:.1}\" text-anchor=\"end\">{}</text>",
            us(power)
        ));
    }
    for mark in marks(most) {
        let (at, foot, below) = (x(mark), HEIGHT - BOTTOM, HEIGHT - BOTTOM + 18.0);
        line(format_args!(
            "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{foot}\" stroke=\"#eee\"/>"
        ));
        line(format_args!(
            "<text x=\"{at:.1}\" y=\"{below}\" text-anchor=\"middle\">{:.0}k</text>",
            mark / 1e3
        ));
    }
    let (middle, foot) = ((LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 10.0);
    line(format_args!(
        "<text x=\"{middle}\" y=\"{foot}\" text-anchor=\"middle\">I/Os a second</text>"
    ));
    for (name, colour, of) in LINES {
        let path: Vec<String> = points
            .iter()
            .map(|point| format!("{:.1},{:.1}", x(point.iops), y(of(point))))
            .collect();
        let path = path.join(" ");
        line(format_args!(
            "<polyline points=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>"
        ));
        for point in &points {
            let (across, up) = (x(point.iops), y(of(point)));
            line(format_args!(
                "<circle cx=\"{across:.1}\" cy=\"{up:.1}\" r=\"3\" fill=\"{colour}\"/>"
            ));
        }
        if let Some(last) = points.last() {
            let (across, up) = (x(last.iops) + 8.0, y(of(last)) + 4.0);
            line(format_args!(
                "<text x=\"{across:.1}\" y=\"{up:.1}\" fill=\"{colour}\">{name}</text>"
            ));
        }
    }
    out.push_str("</svg>\n");
    out
}

/// Round numbers along the lower edge: four to nine of them.
fn marks(most: f64) -> Vec<f64> {
    let tenth = 10f64.powf(most.log10().floor());
    let steps = [0.1, 0.2, 0.5, 1.0, 2.0].map(|share| share * tenth);
    let step = steps.into_iter().find(|step| most / step < 10.0).unwrap_or(most);
    (0..)
        .map(|count| f64::from(count) * step)
        .take_while(|mark| *mark <= most)
        .collect()
}

/// A power of ten of a microsecond, as people say it.
fn us(power: i32) -> String {
    match power {
        6.. => format!("{} s", 10f64.powi(power - 6)),
        3..6 => format!("{} ms", 10f64.powi(power - 3)),
        _ => format!("{} us", 10f64.powi(power)),
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests;
