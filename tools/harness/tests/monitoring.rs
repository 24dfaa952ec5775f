//! What `monitoring/` has for Prometheus and Grafana is sound, and says nothing that a node does not tell: rules, their tests,
//! dashboards, runbooks. What nodes tell is read from `docs/operating/metrics.md`, which is tested against the code.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the repository")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|why| panic!("{path}: {why}"))
}

fn files(folder: &str, end: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join(folder)).expect("a folder").flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    found.retain(|path| path.to_string_lossy().ends_with(end));
    found.sort();
    found
}

const RULES: &str = "monitoring/prometheus/amita.rules.yml";
const TESTS: &str = "monitoring/prometheus/tests";
const RUNBOOKS: &str = "docs/operating/runbooks";

/// A rule, as the file has it.
#[derive(Debug, Default)]
struct Rule {
    alert: Option<String>,
    record: Option<String>,
    expression: String,
    severity: String,
    runbook: String,
}

/// The file is as regular as this reads it; that it is right YAML promtool says.
fn rules() -> Vec<Rule> {
    let mut rules: Vec<Rule> = Vec::new();
    let mut in_block = false;
    for line in read(RULES).lines() {
        let text = line.trim();
        let value = |name: &str| text.strip_prefix(name).map(|rest| rest.trim().to_owned());
        if let Some(name) = value("- alert:") {
            let alert = Some(name);
            rules.push(Rule {
                alert,
                ..Rule::default()
            });
        } else if let Some(name) = value("- record:") {
            let record = Some(name);
            rules.push(Rule {
                record,
                ..Rule::default()
            });
        }
        let Some(rule) = rules.last_mut() else { continue };
        if let Some(expression) = value("expr:") {
            in_block = expression == "|";
            if !in_block {
                rule.expression = expression;
            }
        } else if in_block && line.starts_with("          ") {
            rule.expression.push_str(text);
            rule.expression.push('\n');
        } else {
            in_block = false;
        }
        if let Some(severity) = value("severity:") {
            rule.severity = severity;
        }
        if let Some(runbook) = value("runbook_url:") {
            rule.runbook = runbook;
        }
    }
    rules
}

fn alerts() -> Vec<Rule> {
    let mut all = rules();
    all.retain(|rule| rule.alert.is_some());
    assert!(all.len() > 40, "only {} alerts were read", all.len());
    all
}

fn name(rule: &Rule) -> &str {
    rule.alert.as_deref().expect("an alert")
}

/// What nodes tell: each metric with its kind and labels.
fn metrics() -> BTreeMap<String, (String, BTreeSet<String>)> {
    let text = read("docs/operating/metrics.md");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
    let table: BTreeMap<_, _> = rows
        .filter_map(|row| {
            let (name, rest) = row.split_once("` | ")?;
            let mut columns = rest.split(" | ");
            let (kind, labels) = (columns.next()?, columns.next()?);
            let labels = labels.split(',').map(str::trim).filter(|label| !label.is_empty());
            Some((name.to_owned(), (kind.to_owned(), labels.map(str::to_owned).collect())))
        })
        .collect();
    assert!(table.len() > 50, "only {} metrics were read", table.len());
    table
}

/// Labels that Prometheus adds.
const ADDED: &[&str] = &["job", "instance"];

/// Labels that a series has; none: there is no such series.
fn labels_of(series: &str) -> Option<BTreeSet<String>> {
    let set = |labels: &[&str]| labels.iter().chain(ADDED).map(|&label| label.to_owned()).collect();
    match series {
        "up" => return Some(set(&[])),
        "ALERTS" => return Some(set(&["alertname", "alertstate", "severity"])),
        _ => {}
    }
    let table = metrics();
    if let Some((kind, labels)) = table.get(series) {
        let bare = kind == "histogram";
        return (!bare).then(|| labels.iter().cloned().chain(set(&[])).collect());
    }
    for (suffix, more) in [("_bucket", &["le"][..]), ("_sum", &[]), ("_count", &[])] {
        let found = series.strip_suffix(suffix).and_then(|name| table.get(name));
        if let Some((_, labels)) = found.filter(|(kind, _)| kind == "histogram") {
            return Some(labels.iter().cloned().chain(set(more)).collect());
        }
    }
    let recorded = rules().into_iter().find(|rule| rule.record.as_deref() == Some(series));
    recorded.map(|_| {
        let level = series.split(':').next().unwrap_or_default();
        level.split('_').map(str::to_owned).chain(set(&[])).collect()
    })
}

/// An expression without its texts, which stand apart.
fn without_texts(expression: &str) -> (String, Vec<String>) {
    let mut bare = String::new();
    let mut texts = Vec::new();
    for (number, part) in expression.split('"').enumerate() {
        match number % 2 {
            0 => bare.push_str(part),
            _ => texts.push(part.to_owned()),
        }
    }
    (bare, texts)
}

fn is_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "_:".contains(letter)
}

/// Series of an expression, each with the labels by which it is selected.
fn series(expression: &str) -> Vec<(String, Vec<String>)> {
    let (bare, _) = without_texts(expression);
    let mut found = Vec::new();
    let mut rest = bare.as_str();
    while let Some(start) = rest.find(is_name) {
        let end = rest[start..]
            .find(|letter| !is_name(letter))
            .map_or(rest.len(), |at| start + at);
        let word = &rest[start..end];
        rest = &rest[end..];
        if word.starts_with("amita_")
            || word.starts_with("process_")
            || word.contains(':')
            || ["up", "ALERTS"].contains(&word)
        {
            let matchers = rest.strip_prefix('{').and_then(|inside| inside.split('}').next());
            let names = matchers.unwrap_or_default().split(',');
            let names = names.map(|matcher| matcher.trim().trim_end_matches(['=', '~', '!']));
            let names = names.filter(|name| !name.is_empty()).map(str::to_owned);
            found.push((word.to_owned(), names.collect()));
        } else if word == "offset" {
            rest = rest.trim_start().trim_start_matches(is_name);
        }
    }
    found
}

/// Labels by which an expression groups or joins.
fn grouped(expression: &str) -> Vec<String> {
    let (bare, _) = without_texts(expression);
    let mut labels = Vec::new();
    for word in ["by", "on", "group_left", "without", "ignoring"] {
        for (at, _) in bare.match_indices(&format!("{word} (")) {
            let inside = bare[at..].split(['(', ')']).nth(1).unwrap_or_default();
            labels.extend(inside.split(',').map(|label| label.trim().to_owned()));
        }
    }
    labels.retain(|label| !label.is_empty());
    labels
}

/// What is wrong with the names of an expression.
fn wrong_names(expression: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let all = series(expression);
    if all.is_empty() {
        wrong.push(format!("no series in: {expression}"));
    }
    let mut known: BTreeSet<String> = BTreeSet::new();
    for (series, labels) in all {
        let Some(own) = labels_of(&series) else {
            wrong.push(format!("no node tells {series}"));
            continue;
        };
        wrong.extend(
            labels
                .iter()
                .filter(|label| !own.contains(*label))
                .map(|label| format!("{series} has no label {label}")),
        );
        known.extend(own);
    }
    let groups = grouped(expression).into_iter();
    wrong.extend(
        groups
            .filter(|label| !known.contains(label))
            .map(|label| format!("nothing has the label {label}: {expression}")),
    );
    let (facts, events) = (read("docs/operating/health.md"), read("docs/operating/metrics.md"));
    for (label, text, mark) in [("fact", &facts, "| "), ("event", &events, "`")] {
        for (at, start) in expression.match_indices(&format!("{label}=")) {
            let value = expression[at + start.len()..].split('"').nth(1).unwrap_or_default();
            let unknown = value
                .split('|')
                .filter(|one| !text.contains(&format!("{mark}{one}{}", mark.trim_start_matches('|'))));
            wrong.extend(unknown.map(|one| format!("there is no {label} {one}")));
        }
    }
    wrong
}

/// Every query of a dashboard, as Prometheus would be asked.
fn queries(dashboard: &Path) -> Vec<String> {
    fn walk(value: &serde_json::Value, found: &mut Vec<String>) {
        match value {
            serde_json::Value::Object(fields) => {
                found.extend(fields.get("expr").and_then(|expr| expr.as_str()).map(str::to_owned));
                fields.values().for_each(|value| walk(value, found));
            }
            serde_json::Value::Array(values) => values.iter().for_each(|value| walk(value, found)),
            _ => {}
        }
    }
    let text = std::fs::read_to_string(dashboard).expect("a dashboard");
    let mut found = Vec::new();
    walk(&serde_json::from_str(&text).expect("JSON"), &mut found);
    assert!(found.len() > 8, "{}: {} queries", dashboard.display(), found.len());
    let asked = |query: String| {
        ["$job", "$volume", "$store"]
            .iter()
            .fold(query, |query, one| query.replace(one, "amita"))
    };
    found
        .into_iter()
        .map(|query| asked(query.replace("$__rate_interval", "5m")))
        .collect()
}

fn promtool(arguments: &[&str]) -> String {
    let fetched = Command::new(root().join("scripts/fetch-promtool"))
        .output()
        .expect("bash");
    assert!(fetched.status.success(), "{}", String::from_utf8_lossy(&fetched.stderr));
    let path = String::from_utf8(fetched.stdout).expect("a path");
    let output = Command::new(path.trim())
        .args(arguments)
        .current_dir(root())
        .output()
        .expect("promtool");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(output.status.success(), "promtool {arguments:?}:\n{said}");
    said
}

#[test]
fn promtool_takes_the_rules_and_their_tests() {
    let said = promtool(&["check", "rules", RULES]);
    assert!(said.contains(&format!("{} rules found", rules().len())), "{said}");
    let tests = files(TESTS, ".yml");
    assert!(tests.len() > 5, "{tests:?}");
    let tests: Vec<&str> = tests.iter().map(|path| path.to_str().expect("UTF-8")).collect();
    promtool(&[&["test", "rules"], tests.as_slice()].concat());
}

#[test]
fn every_query_of_a_dashboard_is_one() {
    let mut text = String::from("groups:\n  - name: queries\n    rules:\n");
    for query in files("monitoring/grafana", ".json")
        .iter()
        .flat_map(|path| queries(path))
    {
        let query = serde_json::Value::String(query);
        text.push_str(&format!("      - record: a:query:asked\n        expr: {query}\n"));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("queries.yml");
    std::fs::write(&path, text).expect("a file");
    promtool(&["check", "rules", "--lint=none", path.to_str().expect("UTF-8")]);
}

#[test]
fn rules_and_dashboards_name_only_what_nodes_tell() {
    let mut wrong = Vec::new();
    for rule in rules() {
        let named = rule.alert.as_ref().or(rule.record.as_ref()).expect("a name");
        wrong.extend(
            wrong_names(&rule.expression)
                .into_iter()
                .map(|why| format!("{named}: {why}")),
        );
    }
    for path in files("monitoring/grafana", ".json") {
        let found = queries(&path).into_iter().flat_map(|query| wrong_names(&query));
        wrong.extend(found.map(|why| format!("{}: {why}", path.display())));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_name_that_nobody_tells_is_found() {
    for (expression, why) in [
        ("amita_nothing > 0", "no node tells amita_nothing"),
        (
            "amita_volume_latency_seconds > 0",
            "no node tells amita_volume_latency_seconds",
        ),
        (
            "amita_store_serves{volume=\"v\"} == 0",
            "amita_store_serves has no label volume",
        ),
        ("sum by (pool) (amita_store_serves)", "nothing has the label pool"),
        ("amita_health_facts{fact=\"bad-luck\"} > 0", "there is no fact bad-luck"),
        (
            "amita_store_events_total{event=~\"damaged|luck\"} > 0",
            "there is no event luck",
        ),
        ("1 > 0", "no series in"),
    ] {
        let found = wrong_names(expression);
        assert!(found.len() == 1 && found[0].starts_with(why), "{expression}: {found:?}");
    }
}

/// Does a test file ask for the alert, once where it fires and once where it does not?
fn tested(alert: &str) -> (bool, bool) {
    let (mut fires, mut silent) = (false, false);
    for path in files(TESTS, ".yml") {
        let text = std::fs::read_to_string(path).expect("a test");
        for check in text.split("- expr:").skip(1) {
            let (question, answer) = check.split_once("exp_samples:").expect("what is expected");
            if question.contains(&format!("alertname=\"{alert}\"")) {
                silent |= answer.trim_start().starts_with("[]");
                fires |= answer.contains("value: 1");
            }
        }
    }
    (fires, silent)
}

#[test]
fn every_alert_is_tested_firing_and_silent_and_on_a_healthy_cluster() {
    let healthy = read(&format!("{TESTS}/healthy.yml"));
    for rule in alerts() {
        assert_eq!(tested(name(&rule)), (true, true), "{}: (fires, silent)", name(&rule));
        for (series, _) in series(&rule.expression)
            .into_iter()
            .filter(|(series, _)| !series.contains(':'))
        {
            let there = [format!("'{series}{{"), format!("'{series}'")];
            assert!(
                there.iter().any(|start| healthy.contains(start)),
                "{}: healthy.yml has no {series}",
                name(&rule)
            );
        }
    }
}

const HEADINGS: &[&str] = &[
    "## What hosts notice",
    "## Where to look",
    "## What to do",
    "## When it is over",
];

#[test]
fn every_alert_has_a_runbook_and_every_runbook_an_alert() {
    let index = read(&format!("{RUNBOOKS}/README.md"));
    let mut pages: BTreeSet<String> = BTreeSet::from(["README.md".to_owned()]);
    for rule in alerts() {
        let (name, path) = (name(&rule), &rule.runbook);
        assert_eq!(*path, format!("{RUNBOOKS}/{name}.md"));
        assert!(
            ["page", "ticket", "info"].contains(&rule.severity.as_str()),
            "{name}: {}",
            rule.severity
        );
        let page = read(path);
        assert!(
            page.starts_with(&format!("# {name}\n\nSeverity: {}\n\n", rule.severity)),
            "{path}: its head"
        );
        let parts: Vec<usize> = HEADINGS.iter().filter_map(|heading| page.find(heading)).collect();
        assert!(parts.len() == HEADINGS.len() && parts.is_sorted(), "{path}: its parts");
        assert!(
            index.contains(&format!("| [{name}]({name}.md) | {} | ", rule.severity)),
            "{name} is not in the index"
        );
        assert!(pages.insert(format!("{name}.md")), "{name} stands twice");
    }
    let there = files(RUNBOOKS, ".md");
    let there: BTreeSet<String> = there
        .iter()
        .filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
        .collect();
    assert_eq!(there, pages);
}

/// What stands between two backquotes.
fn quoted(text: &str) -> Vec<String> {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    words.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The section of the reference that tells of a command; none: there is no such command.
fn section<'a>(reference: &'a str, command: &str) -> Option<&'a str> {
    let words: Vec<&str> = command.split(' ').collect();
    let known = (1..=words.len()).rev().find_map(|count| {
        let heading = format!("\n## {}\n", words[..count].join(" "));
        let at = reference.find(&heading)?;
        reference[at + heading.len()..]
            .split("\n## ")
            .next()
            .map(|text| (count, text))
    });
    // `amita` alone, and what has commands of its own, are none with whatever else stands behind them.
    let is_whole = |count: usize, text: &str| {
        let next = words.get(count).filter(|word| !word.starts_with('-'));
        count > 1 && !(next.is_some() && text.contains("<COMMAND>"))
    };
    known
        .filter(|(count, text)| is_whole(*count, text))
        .map(|(_, text)| text)
}

fn wrong_command(reference: &str, command: &str) -> Option<String> {
    let Some(text) = section(reference, command) else {
        return Some(format!("there is no command `{command}`"));
    };
    let everywhere = ["--metadata", "--identity"];
    let options = command.split(' ').filter(|word| word.starts_with("--"));
    let unknown = options.filter(|option| !everywhere.contains(option)).find(|option| {
        let after = |at: usize| text[at + option.len()..].starts_with([' ', '\n', ',', '.']);
        !text.match_indices(*option).any(|(at, _)| after(at))
    });
    unknown.map(|option| format!("`{command}`: there is no option {option}"))
}

#[test]
fn runbooks_name_only_commands_that_there_are() {
    let reference = read("docs/operating/commands.md");
    let (mut wrong, mut looked_at) = (Vec::new(), 0);
    for path in files(RUNBOOKS, ".md") {
        let text = std::fs::read_to_string(&path).expect("a page");
        for command in quoted(&text).iter().filter(|quoted| quoted.starts_with("amita ")) {
            looked_at += 1;
            wrong.extend(wrong_command(&reference, command).map(|why| format!("{}: {why}", path.display())));
        }
    }
    assert!(looked_at > 100, "only {looked_at} commands were looked at");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for command in ["amita fly", "amita node list --fast", "amita disk fly STORE"] {
        assert!(wrong_command(&reference, command).is_some(), "{command}");
    }
    assert_eq!(wrong_command(&reference, "amita node maintenance off NODE"), None);
}
