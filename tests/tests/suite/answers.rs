//! Answers that are large or take long to make: no user takes the memory of the daemon with them, and none delays others
//! (D1, D4).

use paceline_tests::{Api, Daemon, Launch, Scratch};
use serde_json::json;

/// A daemon with so many resources, each with a name of more than 600 bytes.
fn with_resources(scratch: &Scratch, count: usize) -> Daemon {
    let name = "x".repeat(600);
    let text: String =
        (0..count).map(|number| format!("[[resource]]\nname = \"{name}{number}\"\n")).collect();
    let config = scratch.write("resources.toml", text);
    let launch = Launch::new(scratch).api("127.0.0.1:0").option("--config", config);
    launch.start().unwrap()
}

/// How many answers are sent before one is refused, if no client reads its own.
fn unread(daemon: &Daemon, path: &str, most: usize) -> usize {
    let mut kept = Vec::new();
    for count in 0..most {
        let mut api = daemon.api();
        api.send("GET", path, None);
        match api.status() {
            200 => kept.push(api),
            status => {
                assert_eq!(status, 503);
                return count;
            }
        }
    }
    most
}

#[test]
fn figures_and_configurations_that_are_not_read_are_bounded_d1() {
    let scratch = Scratch::new();
    let daemon = with_resources(&scratch, 2_000);
    for path in ["/metrics", "/v1/config"] {
        assert_eq!(unread(&daemon, path, 12), 8, "{path}");
        // The daemon hears of the end of these clients when it hears of it.
        while daemon.api().get(path).status != 200 {}
    }
}

/// Answers of less than a megabyte count with their bytes.
#[test]
fn smaller_answers_that_are_not_read_are_bounded_d1() {
    let scratch = Scratch::new();
    let daemon = with_resources(&scratch, 1_500);
    let length = daemon.api().get("/v1/tree").text.len();
    assert!(length < 1 << 20, "{length}");
    let count = unread(&daemon, "/v1/tree", 200);
    assert_eq!(count, (128 << 20) / length, "answers of {length} bytes");
    // What is small is answered all the same.
    let _ = daemon.api().get("/v1/pools").expect(200);
}

/// How many of these have an answer.
fn answered(clients: &mut [Api]) -> usize {
    clients.iter_mut().filter_map(|api| api.is_answered().then_some(())).count()
}

/// Clients of one user that send the same, of which some are answered by now.
fn greedy(
    daemon: &Daemon,
    count: usize,
    role: &str,
    request: (&str, &str, Option<&str>),
) -> Vec<Api> {
    let token = json!({"name": role, "role": role});
    let token = daemon.api().call("POST", "/v1/tokens", &token).expect(201);
    let token = token["token"].as_str();
    let mut clients: Vec<Api> = (0..count).map(|_| Api::tcp(daemon.api_address(), token)).collect();
    let (method, path, body) = request;
    clients.iter_mut().for_each(|api| api.send(method, path, body));
    while answered(&mut clients) == 0 {
        std::thread::yield_now();
    }
    clients
}

/// A viewer that asks for a long list a hundred times at once does not delay the list of another user.
#[test]
fn lists_of_one_user_do_not_delay_those_of_another_d4() {
    let scratch = Scratch::new();
    let text: String =
        (0..20_000).map(|number| format!("[[resource]]\nname = \"disk-{number}\"\n")).collect();
    let config = scratch.write("resources.toml", text);
    let launch = Launch::new(&scratch).api("127.0.0.1:0").option("--config", config);
    let daemon = launch.start().unwrap();
    let mut owner = daemon.api();
    let mut greedy = greedy(&daemon, 100, "viewer", ("GET", "/v1/tree", None));
    let before = answered(&mut greedy);
    let _ = owner.get("/v1/pools").expect(200);
    let after = answered(&mut greedy);
    assert!(after < before + 50, "{} lists of the other user came first", after - before);
}

/// Rules with regular expressions against a text of a megabyte, explained to a viewer or as permits of a client: both
/// delay the permits of another user by less than one of them takes.
#[test]
fn long_texts_of_one_user_do_not_delay_another_d4() {
    let patterns = [
        "(?i)select.*from.*(orders|customers)",
        "(a|b|c)+[0-9]{2,9}x",
        ".*/export/[^/]+/",
        "\\\\b(DROP|ALTER)\\\\s+TABLE\\\\s+t",
    ];
    let rule = |(number, pattern): (usize, &&str)| {
        let pattern = format!("match = {{ text = {{ regex = \"{pattern}{number}\" }} }}");
        format!("[[rule]]\nnumber = {}\n{pattern}\nset = 1\n", number + 10)
    };
    let rules: String = patterns.iter().cycle().take(100).enumerate().map(rule).collect();
    let scratch = Scratch::new();
    let config = scratch.write("rules.toml", rules);
    let launch = Launch::new(&scratch).api("127.0.0.1:0").option("--config", config);
    let daemon = launch.start().unwrap();
    let mut text = "select abcabcabc from the /export/ drop table ".repeat(22_000);
    text.truncate(1_000_000);
    let mut owner = daemon.api();
    for (path, role, once) in [("/v1/explain", "viewer", false), ("/v1/permits", "client", true)] {
        let body = json!({"attributes": {"text": text}, "once": once}).to_string();
        let mut greedy = greedy(&daemon, 24, role, ("POST", path, Some(&body)));
        let before = answered(&mut greedy);
        for _ in 0..20 {
            let _ = owner.call("POST", "/v1/permits", &json!({"once": true})).expect(200);
        }
        let after = answered(&mut greedy);
        assert!(after < before + 10, "{path}: {} of the other user came first", after - before);
        let first = greedy.iter_mut().find_map(|api| api.is_answered().then(|| api.answer()));
        let _ = first.unwrap().expect(200);
    }
}
