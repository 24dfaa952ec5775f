use super::{Cli, Endpoints};
use clap::{CommandFactory, Parser};

#[test]
fn the_command_line_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn endpoints_are_split_and_missing_ones_are_said() {
    let endpoints = Endpoints(Some("http://a:1, http://b:2,".into()));
    assert_eq!(
        endpoints.list(),
        Ok(vec!["http://a:1".to_owned(), "http://b:2".to_owned()])
    );
    assert!(
        Endpoints(None)
            .list()
            .expect_err("none")
            .advice
            .contains("AMITA_METADATA")
    );
    assert!(Endpoints(Some(" ,".into())).list().is_err());
}

#[test]
fn a_volume_of_no_whole_blocks_is_refused_at_the_command_line() {
    let error = Cli::try_parse_from(["amita", "volume", "create", "v", "--pool", "p", "--size", "10000"])
        .expect_err("no multiple of 4096");
    assert!(error.to_string().contains("12288"), "{error}");
}

#[test]
fn keep_and_stop_need_a_folder() {
    assert!(Cli::try_parse_from(["amita", "demo", "--keep"]).is_err());
    assert!(Cli::try_parse_from(["amita", "demo", "--stop"]).is_err());
    assert!(Cli::try_parse_from(["amita", "demo", "--keep", "--stop", "--dir", "x"]).is_err());
    assert!(Cli::try_parse_from(["amita", "demo", "--keep", "--dir", "x", "--nodes", "4", "--size", "1G"]).is_ok());
}
