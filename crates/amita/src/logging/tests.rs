use super::{is_for_operators, line, timestamp};
use log::{Level, LevelFilter, Record};

#[test]
fn moments_are_written_as_dates() {
    assert_eq!(timestamp(0, 0), "1970-01-01T00:00:00.000Z");
    assert_eq!(timestamp(951_827_696, 7), "2000-02-29T12:34:56.007Z");
    assert_eq!(timestamp(1_795_168_511, 123), "2026-11-20T09:55:11.123Z");
    assert_eq!(timestamp(4_107_542_399, 999), "2100-02-28T23:59:59.999Z");
}

/// What a stranger has said makes neither a second line nor anything that a terminal obeys; letters are left as they are.
#[test]
fn a_record_is_one_line_without_what_a_terminal_obeys() {
    let written = |text: &str| {
        let arguments = format_args!("{text}");
        let record = Record::builder()
            .level(Level::Warn)
            .target("amita_node::serve")
            .args(arguments)
            .build();
        line(&record, std::time::Duration::from_millis(1_795_168_511_123))
    };
    let begin = "2026-11-20T09:55:11.123Z WARN  node: ";
    for (said, shown) in [
        ("größer als 5 µs: \"ja\" \\", "größer als 5 µs: \"ja\" \\"),
        ("a\r\u{1b}[2Kb\nc\td\u{7f}", "a\\r\\u{1b}[2Kb\\nc\\td\\u{7f}"),
        (
            "\u{9b}2K\u{2028}\u{202e}txt\u{2066}\u{200f}",
            "\\u{9b}2K\\u{2028}\\u{202e}txt\\u{2066}\\u{200f}",
        ),
    ] {
        assert_eq!(written(said), format!("{begin}{shown}\n"));
    }
}

#[test]
fn what_libraries_warn_of_is_for_who_asks_for_more() {
    let is_written = |module: &str, level: Level, most: LevelFilter| {
        let record = Record::builder().level(level).module_path(Some(module)).build();
        is_for_operators(&record, most)
    };
    for level in [Level::Error, Level::Warn, Level::Info] {
        assert!(is_written("amita_node::serve", level, LevelFilter::Info));
        assert!(is_written("amita::commands", level, LevelFilter::Info));
        assert_eq!(
            is_written("rustls::msgs::handshake", level, LevelFilter::Info),
            level == Level::Error
        );
        assert!(is_written("rustls::msgs::handshake", level, LevelFilter::Debug));
    }
}
