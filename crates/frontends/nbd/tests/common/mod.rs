//! Running other people's programs.
#![allow(dead_code)]

use std::process::{Command, Output};

/// Bytes that do not repeat.
pub fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        })
        .collect()
}

/// Runs a program, for at most a minute and a half.
fn output(program: &str, arguments: &[&str]) -> Output {
    let output = Command::new("timeout").arg("90").arg(program).args(arguments).output();
    let output = output.expect("coreutils' timeout runs");
    // 127: timeout did not find the program.
    assert_ne!(
        output.status.code(),
        Some(127),
        "{program} is missing; these tests need: apt-get install fio libnbd-bin qemu-utils"
    );
    output
}

/// Runs a program that must succeed; what it printed.
pub fn run(program: &str, arguments: &[&str]) -> String {
    let output = output(program, arguments);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}\n{text}\n{errors}",
        output.status
    );
    text + &errors
}

/// Runs a program that must fail by itself; what it printed.
pub fn fails(program: &str, arguments: &[&str]) -> String {
    let output = output(program, arguments);
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success(),
        "{program} {arguments:?} should have failed:\n{text}"
    );
    assert_ne!(output.status.code(), Some(124), "{program} {arguments:?} hung:\n{text}");
    text
}
