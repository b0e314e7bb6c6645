//! `paceline tree`: a drawing of the resources, with holders and waiters.
//!
//! A resource with several parents is drawn below each, its own children only the first time, so the drawing is
//! never longer than the edges of the graph. Nothing here recurses: a graph may be deep.

use super::{Reach, figure, text};
use crate::failure::Failure;
use crate::screen::{Screen, Style, clean, cut, width};
use clap::Args;
use paceline_client::{Error, Kind, Method};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

pub const HELP: &str = "\
A resource with several parents is drawn below each of them; (above) means that the resources below it \
are already drawn. A claim also takes everything below its resource, which is marked `taken with` the resource.

Example:
  paceline tree
  paceline permit --claim zpool:tank -- ./scrub.sh      holds a sub-tree while a command runs";

#[derive(Debug, Args)]
pub struct Tree {
    #[command(flatten)]
    pub reach: Reach,
}

pub fn run(tree: &Tree) -> Result<(), Failure> {
    let asker = tree.reach.open()?;
    let answer = match asker.client.call(Method::Get, "/v1/tree", None) {
        Err(Error::NotFound(_)) => Value::Array(asker.client.objects(Kind::Resources)?),
        other => other?,
    };
    let list = answer.get("resources").unwrap_or(&answer).as_array().cloned().unwrap_or_default();
    let nothing = "there are no resources; make one with: paceline resources create NAME";
    asker.show_list(&list, nothing, |screen| draw(&list, screen))
}

/// The most levels that are drawn to the left of a line; more would not fit a screen.
const LEVELS_MAX: usize = 256;

/// A line still to be drawn: a resource, and the lines above it.
struct Next<'a> {
    name: &'a str,
    /// For each of the nearest levels above: whether more lines follow there.
    path: Vec<bool>,
}

fn draw(list: &[Value], screen: Screen) -> String {
    let name = |node: &'_ Value| node.get("name").and_then(Value::as_str).map(str::to_owned);
    let nodes: BTreeMap<String, &Value> =
        list.iter().filter_map(|node| Some((name(node)?, node))).collect();
    let mut children: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut roots = vec![];
    for (name, node) in &nodes {
        let parents = node.get("parents").and_then(Value::as_array);
        let parents = parents.into_iter().flatten().filter_map(Value::as_str);
        let known: Vec<&str> = parents.filter(|parent| nodes.contains_key(*parent)).collect();
        if known.is_empty() {
            roots.push(name.as_str());
        }
        for parent in known {
            children.entry(parent).or_default().push(name);
        }
    }
    let taken = taken(&nodes, &children);
    let mut out = String::new();
    let mut drawn = BTreeSet::new();
    let mut stack: Vec<Next<'_>> =
        roots.iter().rev().map(|name| Next { name, path: vec![] }).collect();
    while let Some(next) = stack.pop() {
        let below = children.get(next.name).map_or(&[][..], Vec::as_slice);
        let is_first = drawn.insert(next.name);
        let Some(node) = nodes.get(next.name) else { continue };
        let is_above = !is_first && !below.is_empty();
        let notes = notes(node, taken.get(next.name).copied(), is_above);
        out.push_str(&line(&next, notes, screen));
        if !is_first {
            continue;
        }
        for (place, name) in below.iter().enumerate().rev() {
            let mut path = next.path.clone();
            path.push(place + 1 < below.len());
            if path.len() > LEVELS_MAX {
                path.remove(0);
            }
            stack.push(Next { name, path });
        }
    }
    out
}

/// The resources that a claim on one above them covers, each with that one.
fn taken<'a>(
    nodes: &'a BTreeMap<String, &Value>,
    children: &BTreeMap<&'a str, Vec<&'a str>>,
) -> BTreeMap<&'a str, &'a str> {
    let mut taken = BTreeMap::new();
    let held = nodes.iter().filter(|(_, node)| is_held(node)).map(|(name, _)| name.as_str());
    let mut left: Vec<(&str, &str)> = held.map(|name| (name, name)).collect();
    while let Some((name, above)) = left.pop() {
        for child in children.get(name).map_or(&[][..], Vec::as_slice) {
            if !taken.contains_key(child) {
                taken.insert(*child, above);
                left.push((child, above));
            }
        }
    }
    taken
}

fn is_held(node: &Value) -> bool {
    match node.get("holders").and_then(Value::as_array) {
        Some(holders) => !holders.is_empty(),
        None => !matches!(figure(node, "holding").as_str(), "" | "0"),
    }
}

fn line(next: &Next<'_>, notes: Vec<(String, Style)>, screen: Screen) -> String {
    let prefix = prefix(&next.path, screen.width / 2);
    let left = screen.width.saturating_sub(width(&prefix));
    let needed: usize = notes.iter().map(|(text, _)| 2 + width(text)).sum();
    // A name is more important than the notes, but does not get the whole line.
    let name = cut(&clean(next.name), left.saturating_sub(needed).max(left / 2));
    let mut left = left.saturating_sub(width(&name));
    let mut out = screen.paint(Style::Faint, &prefix) + &name;
    for (text, style) in notes {
        let text = cut(&text, left.saturating_sub(2));
        if text.is_empty() {
            break;
        }
        left = left.saturating_sub(2 + width(&text));
        out.push_str("  ");
        out.push_str(&screen.paint(style, &text));
    }
    out.push('\n');
    out
}

/// The lines to the left; only the nearest levels if there are many.
fn prefix(path: &[bool], max: usize) -> String {
    let Some((last, above)) = path.split_last() else { return String::new() };
    let shown = above.len().min((max / 3).saturating_sub(1));
    let mut text = String::new();
    if shown < above.len() {
        text.push('…');
    }
    for more in above.iter().skip(above.len() - shown) {
        text.push_str(if *more { "│  " } else { "   " });
    }
    text.push_str(if *last { "├─ " } else { "└─ " });
    text
}

fn notes(node: &Value, taken_with: Option<&str>, is_above: bool) -> Vec<(String, Style)> {
    let mut notes = vec![];
    notes.extend(told(node, "holders", "holding", "held by").map(|text| (text, Style::Bad)));
    if let Some(above) = taken_with {
        notes.push((format!("taken with {}", clean(above)), Style::Bad));
    }
    notes.extend(told(node, "waiters", "waiting", "waiting").map(|text| (text, Style::Wait)));
    if is_above {
        notes.push(("(above)".into(), Style::Faint));
    }
    notes
}

/// The requests of a list, or their number if there is no list.
fn told(node: &Value, list: &str, count: &str, word: &str) -> Option<String> {
    let told = match node.get(list).and_then(Value::as_array) {
        Some(requests) => requests.iter().map(request).collect::<Vec<_>>().join(", "),
        None => Some(figure(node, count)).filter(|number| number != "0").unwrap_or_default(),
    };
    (!told.is_empty()).then(|| format!("{word} {told}"))
}

/// A request as it is named in a list: its number, and whether it shares.
fn request(value: &Value) -> String {
    if !value.is_object() {
        return clean(&super::as_text(value));
    }
    let shared = if text(value, "mode") == "shared" { " (shared)" } else { "" };
    clean(&format!("{}{shared}", text(value, "request")))
}

#[cfg(test)]
mod tests {
    use super::draw;
    use crate::screen::{Screen, width};
    use serde_json::{Value, json};

    #[test]
    fn a_deep_graph_is_drawn_within_the_screen() {
        let depth = 20_000;
        let node = |n: usize| json!({"name": format!("r{n:05}"), "parents": [format!("r{:05}", n.wrapping_sub(1))]});
        let list: Vec<Value> = (0..depth).map(node).collect();
        let drawing = draw(&list, Screen { width: 40, colours: false });
        assert_eq!(drawing.lines().count(), depth);
        assert!(drawing.lines().all(|line| width(line) <= 40));
    }

    #[test]
    fn a_graph_with_many_ways_is_drawn_once() {
        let layers = 40;
        let mut list = vec![];
        for layer in 0..layers {
            for side in ["a", "b"] {
                let parents = match layer {
                    0 => json!([]),
                    _ => json!([format!("{:02}a", layer - 1), format!("{:02}b", layer - 1)]),
                };
                list.push(json!({"name": format!("{layer:02}{side}"), "parents": parents}));
            }
        }
        let drawing = draw(&list, Screen { width: 80, colours: false });
        assert_eq!(drawing.lines().count(), 2 + 4 * (layers - 1));
    }
}
