//! `GET /metrics`: tokens that expire soon, and the page that lists every metric.

use paceline_tests::{Api, Launch, Scratch};
use serde_json::json;
use std::collections::BTreeMap;

/// The value of a metric without labels.
fn value(api: &mut Api, metric: &str) -> Option<u64> {
    let text = api.get("/metrics").text;
    let line = text.lines().find_map(|line| line.strip_prefix(metric)?.strip_prefix(' '))?;
    Some(line.parse().unwrap())
}

fn seconds_now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
}

#[test]
fn tokens_that_expire_within_14_days_are_counted() {
    const SOON: &str = "paceline_tokens_expiring";
    const FIRST: &str = "paceline_token_next_expiry_timestamp_seconds";
    let scratch = Scratch::new();
    let daemon = Launch::new(&scratch).start().unwrap();
    let mut api = daemon.api();
    assert_eq!((value(&mut api, SOON), value(&mut api, FIRST)), (Some(0), None));
    let mut make = |name: &str, expires: &str| {
        let token = json!({ "name": name, "role": "viewer", "expires": expires });
        let _ = api.call("POST", "/v1/tokens", &token).expect(201);
        (value(&mut api, SOON), value(&mut api, FIRST))
    };
    assert_eq!(make("kept", "never"), (Some(0), None));
    let (soon, first) = make("later", "15d");
    assert_eq!(soon, Some(0));
    let fifteen_days = seconds_now() + 15 * 86_400;
    assert!(first.is_some_and(|at| (fifteen_days - 60..=fifteen_days).contains(&at)), "{first:?}");
    let (soon, first) = make("next", "13d");
    let thirteen_days = seconds_now() + 13 * 86_400;
    assert_eq!(soon, Some(1));
    assert!(first.is_some_and(|at| (thirteen_days - 60..=thirteen_days).contains(&at)));
    let _ = api.delete("/v1/tokens/next").expect(204);
    assert_eq!(value(&mut api, SOON), Some(0));
}

/// The page lists each metric with the text of its HELP line.
#[test]
fn every_metric_is_on_the_page() {
    let scratch = Scratch::new();
    let config = scratch.write("empty.toml", "[http]\nthreads = 1\n");
    let daemon = Launch::new(&scratch).option("--config", config).start().unwrap();
    let mut api = daemon.api();
    let token = json!({ "name": "t", "role": "viewer" });
    let _ = api.call("POST", "/v1/tokens", &token).expect(201);
    let text = api.get("/metrics").text;
    let helps = text.lines().filter_map(|line| line.strip_prefix("# HELP ")?.split_once(' '));
    let helps: BTreeMap<&str, &str> = helps.collect();
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/metrics.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let rows = rows.map(|row| {
        let (metric, rest) = row.split_once("` | ").unwrap();
        (metric, rest.split_once(" | ").unwrap().1.trim_end_matches(" |"))
    });
    assert_eq!(rows.collect::<BTreeMap<&str, &str>>(), helps);
}
