//! Compares the catalogue with what it describes: its defaults are those of the model, and its columns those of the
//! schema.

use super::{apply, database, read};
use paceline_catalogue::{Default, Holds, KINDS, Kind, Setting, setting_of};
use paceline_model::Model;
use paceline_model::schema::schema;
use std::sync::Arc;

/// Columns without a setting of their own: columns that the daemon keeps for itself, and the second of two that one
/// setting writes.
const OTHERS: [(&str, &str); 5] = [
    ("Pool", "priority_max"),
    ("Frontend", "tls_key"),
    ("Server", "backend"),
    ("Token", "hash"),
    ("Token", "created"),
];

fn all(settings: &'static [Setting]) -> Vec<&'static Setting> {
    settings.iter().flat_map(|setting| [vec![setting], all(setting.inner())].concat()).collect()
}

#[test]
fn every_column_is_a_setting_or_a_figure_and_every_setting_a_column() {
    let schema = schema().unwrap();
    for kind in KINDS {
        let table = schema.table(schema.table_id(kind.table).unwrap());
        for column in table.columns.iter().filter(|column| !column.name.starts_with('_')) {
            let name = &*column.name;
            if name == "file" || OTHERS.contains(&(kind.table, name)) {
                continue;
            }
            let is_figure = kind.figures.iter().any(|figure| figure.name == name);
            assert_eq!(is_figure, !column.persistent, "{} {name}", kind.table);
            let is_setting = setting_of(kind, name).is_some();
            assert!(is_setting != is_figure, "{} {name} is not in the catalogue", kind.table);
        }
        for setting in all(kind.settings) {
            let is_group = matches!(setting.holds, Holds::Table(_));
            // A checkpoint that only counts is one without a limit, and servers are rows of their own.
            let has_column = !is_group && !["count", "servers"].contains(&setting.name);
            let found = table.column_id(setting.column).is_some();
            assert_eq!(found, has_column, "{} {}", kind.table, setting.name);
        }
    }
}

/// The lines that set every setting to its default.
fn defaults(kind: &Kind, left_out: &[&str]) -> String {
    let line = |setting: &Setting| match setting.default {
        Default::Value(value) => Some(format!("{} = {value}", setting.name)),
        _ => None,
    };
    let mut lines = String::new();
    for setting in kind.settings.iter().filter(|setting| setting.is_in_file()) {
        if left_out.contains(&setting.name) {
            continue;
        }
        let inner: Vec<String> = setting.inner().iter().filter_map(line).collect();
        match &setting.holds {
            Holds::Table(_) if inner.is_empty() => {
                lines.extend(line(setting).map(|line| line + "\n"));
            }
            Holds::Table(_) => {
                lines += &format!("{} = {{ {} }}\n", setting.name, inner.join(", "));
            }
            _ => lines.extend(line(setting).map(|line| line + "\n")),
        }
    }
    lines
}

/// The defaults of the catalogue are those of the model.
#[test]
fn defaults_are_what_nothing_means() {
    use paceline_catalogue::{
        BACKENDS, CHECKPOINTS, FRONTENDS, POOLS, RULES, SERVERS, SQL_TARGETS,
    };
    let on = |kind: &'static Kind| {
        let inner = kind.settings.iter().filter(|one| matches!(one.holds, Holds::Switch(_)));
        let table = |switch: &Setting| {
            let each = switch.inner().iter().filter_map(|one| match one.default {
                Default::Value(value) => Some(format!("{} = {value}", one.name)),
                _ => None,
            });
            format!("{} = {{ {} }}\n", switch.name, each.collect::<Vec<_>>().join(", "))
        };
        inner.map(table).collect::<String>()
    };
    let server = defaults(&SERVERS, &[]).trim().replace('\n', ", ");
    let cases: [(&str, String, String); 7] = [
        ("[[pool]]\nname = 'p'\npriority = [1, 2]\n", String::new(), defaults(&POOLS, &[])),
        (
            "[[rule]]\nmatch = { user = 'a' }\nset = 3\n",
            String::new(),
            defaults(&RULES, &["number"]),
        ),
        (
            "[[checkpoint]]\nname = 'c'\nat = 'frontend api'\nfair = 'user'\nconcurrency = 1\n",
            String::new(),
            defaults(&CHECKPOINTS, &["burst"]),
        ),
        (
            "[[checkpoint]]\nname = 'c'\nat = 'frontend api'\nrate = '1/s'\n",
            String::new(),
            defaults(&CHECKPOINTS, &["weight", "period"]),
        ),
        (
            "[[frontend]]\nname = 'f'\nlisten = '127.0.0.1:1'\n",
            String::new(),
            defaults(&FRONTENDS, &[]),
        ),
        (
            "[[sql_target]]\nname = 'app'\nupstream = 'postgresql://db/app'\n",
            String::new(),
            defaults(&SQL_TARGETS, &[]),
        ),
        (
            "[[backend]]\nname = 'b'\n",
            "servers = [{ address = '127.0.0.1:1' }]\nhealth = true\ntls = true\n".into(),
            format!(
                "servers = [{{ address = '127.0.0.1:1', {server} }}]\n{}{}",
                on(&BACKENDS),
                defaults(&BACKENDS, &["servers"])
            ),
        ),
    ];
    let config = |text: &str| {
        let mut database = database();
        apply(&mut database, &read(text));
        let mut model = Model::new(Arc::new(schema().unwrap())).unwrap();
        let mut config = model.config(database.store()).unwrap();
        // A bound that is not set is that of any queue.
        for backend in &mut config.backends {
            backend.queue_len_max.get_or_insert(1_000);
            backend.queue_delay_max.get_or_insert(paceline_types::Span::from_secs(30));
        }
        format!("{config:#?}")
    };
    for (head, short, long) in &cases {
        let (short, long) = (format!("{head}{short}"), format!("{head}{long}"));
        assert_eq!(config(&short), config(&long), "{long}");
    }
}
