//! A frame as lines: a pure function from the state to texts that fit the screen.

use super::view::{Decision, Held, Verdict, View};
use crate::screen::{Screen, Style, clean, cut, width};
use crate::table::{Cell, Column, Table};

/// Columns of a bar.
const BAR: u64 = 10;

/// A screen with fewer columns is narrow.
const WIDE: usize = 60;

/// Rows that are reserved for what is held.
const HELD_ROWS_MIN: usize = 3;

/// Columns of the time of a decision, with the blank after it.
const AT: usize = 6;

/// The fewest lines of decisions, whatever else there is.
const DECISIONS_MIN: usize = 6;

/// The lines of one frame, at most `rows` of them.
pub fn draw(view: &View, screen: Screen, rows: usize) -> Vec<String> {
    let mut lines = head(view, screen);
    lines.push(String::new());
    lines.extend(pools(view, screen));
    lines.push(String::new());
    lines.extend(checkpoints(view, screen));
    lines.push(String::new());
    lines.extend(held(view, screen));
    lines.push(String::new());
    let left = rows.saturating_sub(lines.len() + 1);
    if left < DECISIONS_MIN {
        // The last decisions matter most: the sections above are cut at their end.
        lines.truncate(rows.saturating_sub(DECISIONS_MIN + 1));
    }
    let left = rows.saturating_sub(lines.len() + 1);
    lines.push(heading("LAST DECISIONS", screen));
    lines.extend(last(view, screen, left));
    lines.truncate(rows);
    lines
}

/// The lines of as many of the last decisions as fit.
fn last(view: &View, screen: Screen, rows: usize) -> Vec<String> {
    let mut shown: Vec<Vec<String>> = vec![];
    let mut left = rows;
    for decision in view.decisions.iter().rev() {
        let lines = lines(decision, screen);
        if lines.len() > left {
            break;
        }
        left -= lines.len();
        shown.push(lines);
    }
    shown.into_iter().rev().flatten().collect()
}

fn heading(text: &str, screen: Screen) -> String {
    screen.paint(Style::Head, text)
}

fn head(view: &View, screen: Screen) -> Vec<String> {
    let waiting: u64 = view.pools.iter().map(|pool| pool.waiting).sum();
    let title = (format!("paceline demo {}s", view.elapsed.as_secs()), Style::Head);
    let figures = [
        (format!("admitted {}", view.admitted), Style::Good),
        (format!("waiting {waiting}"), Style::Wait),
        (format!("refused {}", view.refused), Style::Bad),
    ];
    let end = ("q ends".to_owned(), Style::Faint);
    let ask = format!("ask it too: paceline ps --data {}", clean(&view.data));
    // On a narrow screen the figures are below the title.
    let is_narrow = screen.width < WIDE;
    let mut lines = match is_narrow {
        true => vec![row(&[title, end], screen), row(&figures, screen)],
        false => vec![row(&[&[title][..], &figures, &[end]].concat(), screen)],
    };
    lines.push(row(&[(ask, Style::Faint)], screen));
    lines.retain(|line| !line.is_empty());
    lines
}

/// Texts side by side, as many as fit.
fn row(parts: &[(String, Style)], screen: Screen) -> String {
    let (mut out, mut used) = (String::new(), 0);
    for (text, style) in parts {
        let gap = if used > 0 { 2 } else { 0 };
        if used + gap + width(text) > screen.width {
            break;
        }
        out.push_str(&" ".repeat(gap));
        out.push_str(&screen.paint(*style, text));
        used += gap + width(text);
    }
    out
}

fn pools(view: &View, screen: Screen) -> Vec<String> {
    let mut table = Table::new(&[
        Column::text("POOL", 6),
        Column::text("RUNNING", 6).spare(2),
        Column::number("OF").spare(3),
        Column::text("WAITING", 6).spare(1),
    ]);
    for pool in &view.pools {
        let slots = pool.slots.map_or("any".to_owned(), |slots| slots.to_string());
        let room = pool.slots.unwrap_or(pool.running);
        let running = format!("{} {}", pool.running, bar(pool.running, room.min(BAR)));
        let waiting = match pool.waiting {
            0 => String::new(),
            waiting => format!("{waiting} {}", bar(waiting, 0)),
        };
        table.row(vec![
            pool.name.as_str().into(),
            Cell::new(running.trim_end(), Style::Good),
            slots.into(),
            Cell::new(waiting, Style::Wait),
        ]);
    }
    table.draw(screen).lines().map(str::to_owned).collect()
}

/// A bar of blocks, and dots for what is free.
fn bar(full: u64, room: u64) -> String {
    let shown = full.min(BAR);
    let count = |number: u64| usize::try_from(number).unwrap_or_default();
    let more = if full > BAR { "+" } else { "" };
    let free = count(room.saturating_sub(shown));
    format!("{}{}{more}", "█".repeat(count(shown)), "·".repeat(free))
}

fn checkpoints(view: &View, screen: Screen) -> Vec<String> {
    let mut table = Table::new(&[
        Column::text("CHECKPOINT", 8),
        Column::text("LIMIT", 12).spare(1),
        Column::number("PASSED").spare(5),
        Column::number("INFLIGHT").spare(4),
        Column::number("REFUSED").spare(3),
        Column::text("QUEUED", 6).spare(2),
    ]);
    for checkpoint in &view.checkpoints {
        let queued = match checkpoint.queued {
            0 => String::new(),
            queued => format!("{queued} {}", bar(queued, 0)),
        };
        table.row(vec![
            checkpoint.name.as_str().into(),
            checkpoint.limit.as_str().into(),
            checkpoint.passed.as_str().into(),
            checkpoint.inflight.as_str().into(),
            checkpoint.refused.as_str().into(),
            Cell::new(queued, Style::Wait),
        ]);
    }
    table.draw(screen).lines().map(str::to_owned).collect()
}

fn held(view: &View, screen: Screen) -> Vec<String> {
    let mut table = Table::new(&[
        Column::text("HELD", 8),
        Column::text("BY", 8).spare(1),
        Column::text("WAITING", 8).spare(2),
    ]);
    for Held { what, holders, waiters } in &view.held {
        table.row(vec![
            what.as_str().into(),
            Cell::new(holders.join(", "), Style::Good),
            Cell::new(waiters.join(", "), Style::Wait),
        ]);
    }
    if view.held.is_empty() {
        table.row(vec![Cell::new("nothing", Style::Faint), "".into(), "".into()]);
    }
    let mut lines: Vec<String> = table.draw(screen).lines().map(str::to_owned).collect();
    // The section below should not jump whenever something is taken or released.
    if screen.width >= WIDE {
        lines.resize(lines.len().max(HELD_ROWS_MIN + 1), String::new());
    }
    lines
}

/// `12.4 etl-3 waits at checkpoint "per-user" (key "etl"), 2 ahead, 0.4 s`, in one line or more.
pub fn lines(decision: &Decision, screen: Screen) -> Vec<String> {
    let (word, style) = match decision.verdict {
        Verdict::Admitted => ("runs", Style::Good),
        Verdict::Waits => ("waits", Style::Wait),
        Verdict::Refused => ("refused:", Style::Bad),
    };
    let at = format!("{:>5.1}", decision.at.as_secs_f64());
    let who = cut(&clean(&decision.who), screen.width.saturating_sub(AT + 1 + word.len()));
    let text = format!("{at} {who} {word} {}", clean(&decision.text));
    let wrapped = screen.wrap(&text, AT);
    let mut lines: Vec<String> = wrapped.lines().map(|line| cut(line, screen.width)).collect();
    // The first line begins as it was written, unless the screen broke it before the word.
    let plain = format!("{at} {who} {word}");
    if let Some(first) = lines.first_mut()
        && let Some(rest) = first.strip_prefix(&plain)
    {
        let at = screen.paint(Style::Faint, &at);
        *first = format!("{at} {who} {}{rest}", screen.paint(style, word));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::draw;
    use crate::demo::view::{Checkpoint, Decision, Held, Pool, Verdict, View};
    use crate::screen::{Screen, check_screens, width};
    use std::time::Duration;

    fn decision(at: u64, verdict: Verdict, who: &str, text: &str) -> Decision {
        let at = Duration::from_millis(at);
        Decision { at, verdict, who: who.into(), text: text.into() }
    }

    fn pool(name: &str, running: u64, slots: Option<u64>, waiting: u64) -> Pool {
        Pool { name: name.into(), running, slots, waiting }
    }

    fn checkpoint(name: &str, limit: &str, figures: [&str; 3], queued: u64) -> Checkpoint {
        let [inflight, passed, refused] = figures.map(str::to_owned);
        Checkpoint { name: name.into(), limit: limit.into(), inflight, queued, passed, refused }
    }

    fn held(what: &str, holders: &[&str], waiters: &[&str]) -> Held {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Held { what: what.into(), holders: names(holders), waiters: names(waiters) }
    }

    fn sample() -> View {
        let mut view = View {
            elapsed: Duration::from_millis(12_400),
            data: "/tmp/paceline-demo-4711-0".into(),
            pools: vec![
                pool("default", 2, None, 0),
                pool("interactive", 1, Some(3), 0),
                pool("batch", 2, Some(2), 14),
            ],
            checkpoints: vec![
                checkpoint("seen", "counts per user", ["0", "412", "0"], 0),
                checkpoint("per-user", "6/s per user", ["0", "310", "61"], 3),
                checkpoint("one-load-a-table", "1 at once per tag[\"table\"]", ["2", "25", "4"], 2),
            ],
            held: vec![
                held("lock deploy", &["deploy-1"], &["deploy-2"]),
                held("zpool:tank", &["backup-1"], &["snapshots-1", "snapshots-2"]),
            ],
            ..View::default()
        };
        view.note(decision(
            11_900,
            Verdict::Admitted,
            "alice-1",
            "in pool interactive at priority 10, after 0 s",
        ));
        view.note(decision(
            12_000,
            Verdict::Waits,
            "etl-3",
            "at checkpoint \"one-load-a-table\" (key \"orders\"), 2 ahead",
        ));
        view.note(decision(
            12_100,
            Verdict::Refused,
            "crawler-2",
            "checkpoint \"per-user\" (key \"crawler\"): the queue is full, 4 may wait",
        ));
        view.note(decision(
            12_200,
            Verdict::Waits,
            "crawler-1",
            "at checkpoint \"per-user\" (key \"crawler\"), 1 ahead, 0.4 s",
        ));
        view.note(decision(
            12_300,
            Verdict::Admitted,
            "deploy-1",
            "with lock deploy, fencing number 4",
        ));
        view.note(decision(12_350, Verdict::Refused, "crawler-4", "rejected by rule 10"));
        view
    }

    #[test]
    fn a_frame_fits_every_screen() {
        let view = sample();
        check_screens("demo", |screen| draw(&view, screen, 24).join("\n") + "\n");
    }

    #[test]
    fn a_frame_has_no_more_lines_than_the_screen() {
        let mut view = sample();
        for number in 0..300 {
            view.note(decision(number, Verdict::Waits, "x", "for a slot"));
        }
        for rows in [1, 5, 10, 24, 60] {
            for columns in [20, 40, 80, 200] {
                let lines = draw(&view, Screen { width: columns, colours: false }, rows);
                assert!(lines.len() <= rows, "{rows} {columns}");
                assert!(lines.iter().all(|line| width(line) <= columns), "{columns}: {lines:#?}");
            }
        }
    }
}
