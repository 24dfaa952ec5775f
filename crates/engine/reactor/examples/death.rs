//! How soon a peer learns that a process died: with sockets in the ring's table and without.
//! `cargo run --release -p amita-reactor --example death`
use amita_reactor::uring::{UringConfig, UringDriver};
use amita_reactor::{Driver, Outcome, Pool, PoolConfig, Token, Wait};
use std::io::Read;
use std::net::TcpListener;
use std::process::Command;
use std::time::{Duration, Instant};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, address, register] = &arguments[..] {
        let config = UringConfig {
            register_files: register == "true",
            ..UringConfig::default()
        };
        let mut driver = UringDriver::new(config, Pool::new(PoolConfig::default()).unwrap()).unwrap();
        driver.connect(address.parse().unwrap(), Token(1));
        let mut completions = Vec::new();
        loop {
            driver.poll(Wait::UntilEvent, &mut completions);
            for done in completions.drain(..) {
                if let Outcome::Connected { result: Ok(socket) } = done.outcome {
                    let buffer = driver.pool().take(4096).unwrap();
                    driver.receive(socket, buffer, Token(2));
                }
            }
        }
    }
    for register in ["true", "false"] {
        for _ in 0..5 {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap().to_string();
            let mut child = Command::new(&arguments[0]).args([&address, register]).spawn().unwrap();
            let mut stream = listener.accept().unwrap().0;
            std::thread::sleep(Duration::from_millis(100));
            let before = Instant::now();
            child.kill().unwrap();
            let end = stream.read(&mut [0]);
            println!("registered {register}: {end:?} after {:?}", before.elapsed());
            child.wait().unwrap();
        }
    }
}
