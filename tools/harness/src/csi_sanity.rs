//! csi-sanity, the suite of Kubernetes for drivers of CSI: where its program is, and what a run of it has said of each case.

use amita_terminal::error::{Context, Failure, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// How a case came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    /// The suite says that it does not concern this driver, or it was told to leave the case out.
    Skipped,
    /// Anything else: it failed, was ended, or never ran.
    Failed,
}

/// A case.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    pub name: String,
    pub outcome: Outcome,
    /// Seconds that it took.
    pub seconds: f64,
}

/// A tool in Go of a name that `scripts/fetch-go-tool` knows; the first time it is built.
///
/// # Errors
/// When it is not there and cannot be built.
pub fn go_tool(name: &str) -> Result<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/fetch-go-tool");
    let output = Command::new(&script)
        .arg(name)
        .output()
        .context(|| format!("cannot run {}", script.display()))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        return Err(Failure::new(format!("{name} is not there:\n{words}")));
    }
    Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
}

/// The suite's program, by a path without links: a guest has the folder that it lies in, and no other one.
///
/// # Errors
/// As [`go_tool`].
pub fn program() -> Result<PathBuf> {
    let program = go_tool("csi-sanity")?;
    program.canonicalize().context(|| program.display().to_string())
}

/// The cases of a report (`--ginkgo.junit-report`), without what the suite does around them.
///
/// # Errors
/// When there are none in it.
pub fn cases(report: &str) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for element in report.split("<testcase ").skip(1) {
        let head = element.split('>').next().unwrap_or_default();
        let attribute = |key: &str| {
            let start = format!("{key}=\"");
            let found = head.split_once(start.as_str()).map(|(_, rest)| rest);
            found.and_then(|rest| rest.split('"').next()).map(plain)
        };
        let name = attribute("name").unwrap_or_default();
        let Some(name) = name.strip_prefix("[It] ") else {
            continue;
        };
        cases.push(Case {
            name: name.to_owned(),
            outcome: match attribute("status").as_deref() {
                Some("passed") => Outcome::Passed,
                Some("skipped" | "pending") => Outcome::Skipped,
                _ => Outcome::Failed,
            },
            seconds: attribute("time").and_then(|text| text.parse().ok()).unwrap_or(0.0),
        });
    }
    match cases.is_empty() {
        true => Err(Failure::new(format!("the report has no cases: {report}"))),
        false => Ok(cases),
    }
}

fn plain(text: &str) -> String {
    let pairs = [
        ("&#34;", "\""),
        ("&#39;", "'"),
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&amp;", "&"),
    ];
    pairs
        .iter()
        .fold(text.to_owned(), |text, (written, meant)| text.replace(written, meant))
}

/// The names of the cases that came out so.
#[must_use]
pub fn that_are(cases: &[Case], outcome: Outcome) -> Vec<&str> {
    let fit = cases.iter().filter(|case| case.outcome == outcome);
    fit.map(|case| case.name.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read() {
        let report = r#"<testsuites><testsuite tests="4">
            <testcase name="[BeforeSuite]" classname="x" status="passed" time="1"></testcase>
            <testcase name="[It] Node &#34;a&#34; should &lt;work&gt;" classname="x" status="passed" time="1.5"><system-err>it</system-err></testcase>
            <testcase name="[It] b" classname="x" status="skipped" time="0"><skipped message="skipped - no"></skipped></testcase>
            <testcase name="[It] c" classname="x" status="panicked" time="0"></testcase></testsuite></testsuites>"#;
        let cases = cases(report).expect("cases");
        assert_eq!(that_are(&cases, Outcome::Passed), ["Node \"a\" should <work>"]);
        assert_eq!(that_are(&cases, Outcome::Skipped), ["b"]);
        assert_eq!(that_are(&cases, Outcome::Failed), ["c"]);
        assert!((cases[0].seconds - 1.5).abs() < 1e-9);
        assert!(super::cases("<testsuites/>").is_err());
    }
}
