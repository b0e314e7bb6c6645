//! JSON texts of more and more bytes.

use super::world::DEPTH_MAX;
use crate::Outcome;
use crate::measure::{Bench, Load, Unit, time};
use paceline_tables::json;
use std::time::Duration;

const SIZES: [usize; 3] = [1_000, 10_000, 1_000_000];

/// Bytes in one round.
const BYTES: usize = 1_000_000;

const PARSE: Load = Load {
    name: "json parse",
    operation: "one byte of a transact request, parsed into a value that is then dropped",
    of: "bytes",
    unit: Unit::Megabytes,
};
const WRITE: Load = Load {
    name: "json write",
    operation: "one byte of the same value, written",
    of: "bytes",
    unit: Unit::Megabytes,
};

/// Runs the loads.
pub fn run(bench: &mut Bench) -> Outcome<()> {
    for size in SIZES {
        let text = request(size);
        let times = (BYTES / text.len()).max(1);
        bench.run(PARSE, size, || parse(&text, times))?;
        let value = json::parse(&text, DEPTH_MAX)?;
        let mut out = Vec::new();
        bench.run(WRITE, size, || {
            let (taken, ()) = time(|| {
                for _ in 0..times {
                    out.clear();
                    value.write(&mut out);
                }
            });
            Ok((taken, times * out.len()))
        })?;
    }
    Ok(())
}

fn parse(text: &[u8], times: usize) -> Outcome<(Duration, usize)> {
    let (taken, done) = time(|| {
        (0..times).try_for_each(|_| json::parse(std::hint::black_box(text), DEPTH_MAX).map(drop))
    });
    done?;
    Ok((taken, times * text.len()))
}

/// A request of about `size` bytes.
fn request(size: usize) -> Vec<u8> {
    let mut text = String::from(r#"{"id":1,"method":"transact","params":["Bench""#);
    let mut at = 0;
    while text.len() < size {
        at += 1;
        text.push_str(&format!(
            concat!(
                r#",{{"op":"insert","table":"Row","row":{{"name":"row-{}","number":{},"#,
                r#""note":"a note with \"quotes\" in it","tags":["map",[["kind","plain"]]],"#,
                r#""friend":["uuid","0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"]}}}}"#
            ),
            at, at
        ));
    }
    text.push_str("]}");
    text.into_bytes()
}
