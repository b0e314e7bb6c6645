//! The criteria of a rule, in the file: `match`, `mode` and `nocase`.
//!
//! There are three equivalent forms: a table of patterns in the rule's mode, a table with a mode for each attribute,
//! and one text in the rule's text form. A table has a list where an attribute has several patterns.

use crate::document::{Object, text};
use crate::error::ConfigError;
use crate::read::{Own, Owns, Reader};
use crate::write::{key, quoted};
use paceline_rules::{CRITERIA_MAX, Criterion, PatternMode, parse_criteria, show_criteria};
use paceline_types::{MAPS, Name};
use std::collections::BTreeSet;
use toml_edit::{Item, TableLike};

const MODES: [(&str, PatternMode); 3] =
    [("exact", PatternMode::Exact), ("glob", PatternMode::Glob), ("regex", PatternMode::Regex)];

const PATTERN: &str = "a pattern, or a table such as { glob = \"etl-*\" }";

/// Reads the criteria of a rule into its column.
pub(crate) fn read(reader: &mut Reader<'_>, object: &mut Object, owns: &Owns<'_>) {
    let mode = owns.get("mode").and_then(|own| read_mode(reader, own));
    let nocase = owns.get("nocase").and_then(|own| reader.flag("nocase", own.item));
    let Some(own) = owns.get("match") else {
        return reject_mode(reader, owns, "there is no `match`");
    };
    object.places.insert("criteria", own.place);
    let criteria = if let Some(text) = own.item.as_str() {
        reject_mode(reader, owns, "`match` is a text and says the mode of each pattern itself");
        read_text(reader, text, own.item)
    } else if let Some(table) = own.item.as_table_like() {
        let plain = (mode.unwrap_or(PatternMode::Exact), nocase.unwrap_or(false));
        let mut list = List { reader, plain, criteria: vec![], places: vec![] };
        list.table(table);
        object.criteria = list.places;
        list.criteria
    } else {
        return reader.wrong_type("match", own.expected, own.item);
    };
    if criteria.len() > CRITERIA_MAX {
        let message = format!("a rule may have at most {CRITERIA_MAX} criteria");
        return reader.wrong_value("match", &message, own.item);
    }
    if criteria.is_empty() {
        return;
    }
    object.set("criteria", text(&show_criteria(&criteria)), own.place);
}

fn read_mode(reader: &mut Reader<'_>, own: &Own<'_>) -> Option<PatternMode> {
    let found = own.item.as_str().and_then(|word| MODES.iter().find(|(name, _)| *name == word));
    if found.is_none() {
        reader.wrong_type("mode", own.expected, own.item);
    }
    found.map(|(_, mode)| *mode)
}

/// Reports that `mode` and `nocase` have no effect here.
fn reject_mode(reader: &mut Reader<'_>, owns: &Owns<'_>, why: &str) {
    for key in ["mode", "nocase"] {
        if let Some(own) = owns.get(key) {
            let message = format!("`{key}`: expected none, because {why}");
            reader.errors.push(ConfigError::new(own.place, message));
        }
    }
}

fn read_text(reader: &mut Reader<'_>, text: &str, item: &Item) -> Vec<Criterion> {
    if reader.text("match", "a text", item).is_none() {
        return vec![];
    }
    match parse_criteria(text) {
        Ok(criteria) => criteria,
        Err(error) => {
            reader.wrong_value("match", &error.to_string(), item);
            vec![]
        }
    }
}

/// The criteria of one table, while it is read.
struct List<'r, 'a> {
    reader: &'r mut Reader<'a>,
    /// Mode and case of patterns without their own.
    plain: (PatternMode, bool),
    criteria: Vec<Criterion>,
    places: Vec<(String, crate::Place)>,
}

impl List<'_, '_> {
    fn table(&mut self, table: &dyn TableLike) {
        for (name, item) in table.iter() {
            // `header.x-user` without quotes is a table `header` with a key `x-user`.
            match item.as_table_like().filter(|_| MAPS.contains(&name)) {
                Some(map) => {
                    for (inner, item) in map.iter() {
                        self.attribute(format!("{name}.{inner}"), map, inner, item);
                    }
                }
                None => self.attribute(name.to_owned(), table, name, item),
            }
        }
    }

    fn attribute(&mut self, name: String, table: &dyn TableLike, key: &str, item: &Item) {
        let place = self.reader.key_place(table, key);
        let attribute = match Name::parse(&name) {
            Ok(attribute) => attribute,
            Err(error) => {
                self.reader.errors.push(ConfigError::new(place, format!("`match`: {error}")));
                return;
            }
        };
        let several: Vec<Item> = match item.as_array() {
            Some(list) => list.iter().map(|one| Item::Value(one.clone())).collect(),
            None => vec![item.clone()],
        };
        if several.is_empty() {
            // Without a pattern the rule would match every value.
            self.reader.wrong_value(
                &format!("match.{name}"),
                "expected at least one pattern",
                item,
            );
        }
        for item in &several {
            let read = match item.as_table_like() {
                Some(table) => self.own_mode(&name, table, item),
                None => {
                    let pattern = self.reader.text(&format!("match.{name}"), PATTERN, item);
                    pattern.map(|pattern| (self.plain, pattern))
                }
            };
            let Some(((mode, nocase), pattern)) = read else { return };
            let (attribute, pattern) = (attribute.clone(), pattern.to_owned());
            self.criteria.push(Criterion { attribute, mode, nocase, pattern });
            self.places.push((name.clone(), place));
        }
    }

    /// A pattern with its own mode.
    fn own_mode<'t>(
        &mut self,
        name: &str,
        table: &'t dyn TableLike,
        item: &Item,
    ) -> Option<((PatternMode, bool), &'t str)> {
        let (path, mut nocase, mut found) = (format!("match.{name}"), false, vec![]);
        for (key, item) in table.iter() {
            let path = format!("{path}.{key}");
            if key == "nocase" {
                nocase = self.reader.flag(&path, item)?;
            } else if let Some((_, mode)) = MODES.iter().find(|(word, _)| *word == key) {
                found.push((*mode, self.reader.text(&path, "a pattern", item)?));
            } else {
                let place = self.reader.key_place(table, key);
                let names = ["exact", "glob", "regex", "nocase"];
                self.reader.unknown(place, key, &format!("`match.{name}`"), &names);
                return None;
            }
        }
        match *found {
            [(mode, pattern)] => Some(((mode, nocase), pattern)),
            _ => {
                let message = "expected one of exact, glob and regex";
                self.reader.wrong_value(&path, message, item);
                None
            }
        }
    }
}

/// Writes the lines of a row's criteria.
pub(crate) fn write(criteria: &str, out: &mut String) {
    let list = match parse_criteria(criteria) {
        Ok(list) if list.is_empty() => return,
        Ok(list) => list,
        Err(_) => vec![],
    };
    let names: Vec<String> = list.iter().map(|criterion| criterion.attribute.to_string()).collect();
    let is_twice = names.iter().collect::<BTreeSet<_>>().len() < names.len();
    let same = list.windows(2).all(|pair| match pair {
        [a, b] => (a.mode, a.nocase) == (b.mode, b.nocase),
        _ => true,
    });
    // A table `header` means headers, so an attribute of that very name needs the text form.
    let is_map = names.iter().any(|name| MAPS.contains(&name.as_str()));
    let Some(first) = list.first().filter(|_| !is_twice && (same || !is_map)) else {
        out.push_str(&format!("match = {}\n", quoted(criteria)));
        return;
    };
    let each: Vec<String> =
        list.iter().zip(&names).map(|(c, name)| pattern(c, name, same)).collect();
    out.push_str(&format!("match = {{ {} }}\n", each.join(", ")));
    if same && first.mode != PatternMode::Exact {
        out.push_str(&format!("mode = \"{}\"\n", first.mode));
    }
    if same && first.nocase {
        out.push_str("nocase = true\n");
    }
}

fn pattern(criterion: &Criterion, name: &str, same: bool) -> String {
    let (name, pattern) = (key(name), quoted(&criterion.pattern));
    match (criterion.mode, criterion.nocase) {
        _ if same => format!("{name} = {pattern}"),
        (PatternMode::Exact, false) => format!("{name} = {pattern}"),
        (mode, false) => format!("{name} = {{ {mode} = {pattern} }}"),
        (mode, true) => format!("{name} = {{ {mode} = {pattern}, nocase = true }}"),
    }
}
