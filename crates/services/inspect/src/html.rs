//! A report as one file for a browser: nothing is loaded, no script can run, and what records say is text.

use crate::code::Code;
use crate::report::moment;
use crate::sheet::Report;
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::fmt::Write as _;

const STYLE: &str = "\
:root{color-scheme:light dark;font:15px/1.5 system-ui,sans-serif}\
body{max-width:60rem;margin:2rem auto;padding:0 1rem}\
table{border-collapse:collapse;width:100%}\
th,td{text-align:left;vertical-align:top;padding:.3rem .6rem;border-bottom:1px solid #8884}\
article{border-left:.4rem solid #888;padding:.1rem 1rem;margin:1rem 0}\
.critical{border-color:#c62828}.warning{border-color:#b26a00}.notice{border-color:#1565c0}\
h3{margin:.5rem 0}code{font-family:ui-monospace,monospace}\
@media print{body{margin:0;max-width:none}}";

/// What a browser would read as anything but text.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Those that turn the direction of writing, and what is none to be seen.
            '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' => out.push('\u{FFFD}'),
            letter if letter.is_control() && letter != '\n' => out.push('\u{FFFD}'),
            letter => out.push(letter),
        }
    }
    out
}

/// The page. Its policy lets the one style of its own in, by its hash, and nothing else.
#[must_use]
pub fn page(report: &Report) -> String {
    let hash = STANDARD.encode(digest(&SHA256, STYLE.as_bytes()));
    let policy = format!("default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'");
    let cluster = escape(&report.cluster);
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"referrer\" content=\"no-referrer\"><meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>Inspection of cluster {cluster}</title><style>{STYLE}</style></head>\n<body><main>\n\
         <h1>Inspection of cluster {cluster}</h1>\n<p>{}: {}.</p>\n",
        moment(report.at),
        escape(&report.sentence())
    );
    findings(report, &mut out);
    checks(report, &mut out);
    blind(report, &mut out);
    out.push_str("</main></body></html>\n");
    out
}

// Writing to a text cannot fail.
fn findings(report: &Report, out: &mut String) {
    out.push_str("<h2>Findings</h2>\n");
    if report.findings.is_empty() {
        out.push_str("<p>None.</p>\n");
    }
    for found in &report.findings {
        let meaning = Code::named(found.code).map_or("", Code::meaning);
        let _ = write!(
            out,
            "<article class=\"{0}\"><h3>{0}: <code>{1}</code> at {2}</h3>\n<p>{3}</p>\n<p>{4}</p>\n<p><strong>What to do:</strong> {5}</p></article>\n",
            found.severity,
            escape(found.code),
            escape(&found.place.to_string()),
            escape(&found.reason),
            escape(meaning),
            escape(&found.mend)
        );
    }
}

fn checks(report: &Report, out: &mut String) {
    out.push_str("<h2>Looked at</h2>\n<table><thead><tr><th scope=\"col\">Check</th><th scope=\"col\">Looked at</th><th scope=\"col\">Not looked at</th><th scope=\"col\">Found</th></tr></thead><tbody>\n");
    for check in &report.checks {
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(check.title),
            check.looked_at,
            check.not_looked_at,
            check.found
        );
    }
    out.push_str("</tbody></table>\n");
}

fn blind(report: &Report, out: &mut String) {
    out.push_str("<h2>Not looked at</h2>\n<table><thead><tr><th scope=\"col\">Check</th><th scope=\"col\">Why</th><th scope=\"col\">Where</th></tr></thead><tbody>\n");
    for (check, why, places) in report.blind_reasons() {
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(check),
            escape(why),
            escape(&places)
        );
    }
    out.push_str("</tbody></table>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sheet::{Place, Sheet};

    #[test]
    fn whatever_names_are_no_tag_and_no_attribute_comes_of_them() {
        let hostile = "\"><img src=x onerror=alert(1)>'<script>alert(2)</script>\u{202E}&";
        let mut sheet = Sheet::default();
        sheet.find(Code::NicErrors, Place::node(hostile), hostile);
        sheet.blind(crate::code::Check::Nics, Place::node(hostile), hostile);
        let page = page(&sheet.finish(hostile.to_owned(), 1_700_000_000));
        assert!(
            !page.contains("<script") && !page.contains("<img") && !page.contains('\u{202E}'),
            "{page}"
        );
        assert!(
            page.contains("&quot;&gt;&lt;img src=x onerror=alert(1)&gt;&#39;&lt;script&gt;"),
            "{page}"
        );
        // As often as there are tags of our own, and no more.
        assert_eq!(page.matches("<style>").count(), 1);
        assert!(page.contains("default-src 'none'; style-src 'sha256-"), "{page}");
        for outside in ["http://", "https://", "src=\"", "href", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
    }
}
