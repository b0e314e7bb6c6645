//! The same task in the configuration of each proxy: one frontend, one upstream, at most one limit.
//!
//! Each proxy is configured as its manual recommends for speed: connections to the upstream are kept open, and
//! nothing is logged. All forward the client's address to the upstream, as Paceline does.

use std::path::Path;

/// What the proxy must limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// No limit.
    None,
    /// No limit, but requests are counted by `x-key`.
    Keys,
    /// Requests a second in total; further requests wait.
    Rate(u32),
    /// The same, with equal shares for each `x-key`.
    Fair(u32),
    /// Concurrent requests; further requests wait.
    Concurrency(u32),
}

/// The task of one proxy.
#[derive(Debug, Clone, Copy)]
pub struct Job {
    /// Its threads or worker processes.
    pub threads: usize,
    /// Where it listens.
    pub port: u16,
    /// Where the upstream listens.
    pub upstream: u16,
    /// Its limit.
    pub limit: Limit,
}

/// Paceline's TOML.
pub fn paceline(job: &Job) -> String {
    let Job { threads, port, upstream, limit } = job;
    let queue = "queue = { max_len = 1000, max_total = 1000, max_delay = \"60s\" }\n";
    let limit = match limit {
        Limit::None => String::new(),
        // It expires slowly and is never reached, so that every key remains in memory.
        Limit::Keys => "key = 'header[\"x-key\"]'\nkeys_max = 2000000\n\
                        rate = \"60 per 1h\"\nburst = 100000\n"
            .into(),
        Limit::Rate(rate) => format!("rate = \"{rate} per 1s\"\n{queue}"),
        Limit::Fair(rate) => {
            format!("rate = \"{rate} per 1s\"\nfair = 'header[\"x-key\"]'\n{queue}")
        }
        Limit::Concurrency(most) => format!("concurrency = {most}\n{queue}"),
    };
    let checkpoint = "\n[[checkpoint]]\nname = \"limit\"\nat = \"frontend web\"\n";
    let checkpoint = if limit.is_empty() { "" } else { checkpoint };
    format!(
        "[http]\nthreads = {threads}\n\n\
         [[frontend]]\nname = \"web\"\nlisten = \"127.0.0.1:{port}\"\nbackend = \"app\"\n\n\
         [[backend]]\nname = \"app\"\n\
         servers = [{{ name = \"a\", address = \"127.0.0.1:{upstream}\" }}]\n{checkpoint}{limit}"
    )
}

/// HAProxy's configuration; none if it does not support this limit with a queue.
pub fn haproxy(job: &Job) -> Option<String> {
    let Job { threads, port, upstream, limit } = job;
    let (mut track, mut table, mut most) = ("", "", String::new());
    match limit {
        Limit::None => {}
        Limit::Keys => {
            track = "    http-request track-sc0 hdr(x-key) table keys\n";
            table = "backend keys\n    stick-table type string size 2m expire 10m \
                     store http_req_rate(10s)\n";
        }
        Limit::Concurrency(count) => most = format!(" maxconn {count}"),
        Limit::Rate(_) | Limit::Fair(_) => return None,
    }
    Some(format!(
        "global\n    nbthread {threads}\n    maxconn 4000\n\
         defaults\n    mode http\n    timeout connect 5s\n    timeout client 60s\n    \
         timeout server 60s\n    timeout queue 60s\n    http-reuse always\n    \
         option abortonclose\n    option forwardfor\n\
         frontend web\n    bind 127.0.0.1:{port}\n{track}    default_backend app\n{table}\
         backend app\n    server a 127.0.0.1:{upstream}{most}\n"
    ))
}

/// nginx's configuration, with its files in `dir`; none if it does not support this limit with a queue.
pub fn nginx(job: &Job, dir: &Path) -> Option<String> {
    let Job { threads, port, upstream, limit } = job;
    let (zone, used) = match limit {
        Limit::None => (String::new(), ""),
        Limit::Keys => (
            "limit_req_zone $http_x_key zone=all:256m rate=100000r/s;".into(),
            "limit_req zone=all burst=100000 nodelay;",
        ),
        // nginx has no fairness, so it runs with the plain rate.
        Limit::Rate(rate) | Limit::Fair(rate) => (
            format!("limit_req_zone $server_port zone=all:1m rate={rate}r/s;"),
            "limit_req zone=all burst=400;",
        ),
        Limit::Concurrency(_) => return None,
    };
    let dir = dir.display();
    let mut temp = String::new();
    for name in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
        temp += &format!("{name}_temp_path {dir}/{name};\n");
    }
    Some(format!(
        "daemon off;\nworker_processes {threads};\npid {dir}/pid;\nerror_log {dir}/error crit;\n\
         events {{ worker_connections 4096; }}\n\
         http {{\naccess_log off;\nkeepalive_requests 1000000000;\n{temp}{zone}\n\
         upstream app {{ server 127.0.0.1:{upstream}; keepalive 512; \
         keepalive_requests 1000000000; }}\n\
         server {{ listen 127.0.0.1:{port} backlog=1024;\nlocation / {{ {used}\n\
         proxy_pass http://app;\nproxy_http_version 1.1;\nproxy_set_header Connection \"\";\n\
         proxy_set_header Host $host;\nproxy_set_header X-Forwarded-For $remote_addr;\n}} }} }}\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_stand_in_the_words_of_those_who_have_them() {
        let job = |limit| Job { threads: 2, port: 1, upstream: 2, limit };
        let fair = paceline(&job(Limit::Fair(500)));
        assert!(fair.contains("rate = \"500 per 1s\"\nfair = 'header[\"x-key\"]'\n"), "{fair}");
        assert!(!paceline(&job(Limit::None)).contains("checkpoint"));
        assert_eq!(haproxy(&job(Limit::Rate(5))), None);
        assert_eq!(nginx(&job(Limit::Concurrency(5)), Path::new("d")), None);
        assert!(haproxy(&job(Limit::Concurrency(5))).unwrap().ends_with("maxconn 5\n"));
    }
}
