//! The program `amita`.

fn main() {
    if std::env::args().nth(1).as_deref() == Some("units") {
        println!("{:?}", amita::bench::units::measure());
    }
}
