//! What the administrator edits: resources, limits, roles and tokens.

use super::act::RESOURCES;
use super::{Edit, USERS, What, World};
use crate::client;
use std::collections::BTreeSet;
use std::sync::Arc;

impl World {
    /// Edits the configuration, unless an edit is under way.
    pub(super) fn edit_something(&mut self) -> Result<(), String> {
        if self.flights.values().any(|flight| matches!(flight.what, What::Edit(_))) {
            return Ok(());
        }
        let (edit, operation) = match self.rng.below(10) {
            0..6 => (Edit::Resources, self.edit_resources()),
            6 => (Edit::Limit, self.edit_limit()),
            7 | 8 => (Edit::Roles, self.edit_roles()),
            _ => (Edit::Other, self.edit_tokens()),
        };
        let Some(operation) = operation else { return Ok(()) };
        self.begin_edit(edit, &operation)
    }

    pub(super) fn begin_edit(&mut self, edit: Edit, operation: &str) -> Result<(), String> {
        let text = format!("[{operation}, {{\"op\": \"commit\", \"durable\": true}}]");
        let json = paceline_tables::json::parse(text.as_bytes(), 100);
        let json = json.map_err(|error| format!("{text}: {error}"))?;
        let operations = json.as_array().map(<[_]>::to_vec).unwrap_or_default();
        let admin = self.admin()?;
        let own = Arc::clone(&self.daemon()?.own);
        self.note(|_| format!("edits: {operation}"));
        self.fly(What::Edit(edit), client::edit(own, admin, operations))
    }

    fn edit_resources(&mut self) -> Option<String> {
        let mut graph = self.model.graphs.told().clone();
        let nodes: Vec<String> = graph.0.keys().cloned().collect();
        // Resources that are held are moved more often than not.
        let held: Vec<String> = self
            .live_permits()
            .iter()
            .filter_map(|name| self.model.permits.get(name))
            .flat_map(|permit| permit.claims.iter().flat_map(|(node, _)| graph.below(node)))
            .cloned()
            .collect();
        let node = match self.rng.chance(60) {
            true => self.rng.pick_any(&held).or_else(|| self.rng.pick_any(&nodes))?,
            false => self.rng.pick_any(&nodes)?,
        };
        let (name, parents) = graph.0.get(&node).cloned()?;
        let free: Vec<&str> =
            RESOURCES.iter().filter(|name| graph.named(name).is_none()).copied().collect();
        let row = |node: &str| {
            format!(
                "\"table\": \"Resource\", \"where\": [[\"_uuid\", \"==\", [\"uuid\", \"{node}\"]]]"
            )
        };
        let operation = match self.rng.below(10) {
            0..4 => {
                let other = self.rng.pick_any(&free)?;
                graph.0.insert(node.clone(), (other.to_owned(), parents));
                format!(
                    "{{\"op\": \"update\", {}, \"row\": {{\"name\": \"{other}\"}}}}",
                    row(&node)
                )
            }
            4..8 => {
                let count = self.rng.pick(&[0, 1, 1, 2]);
                let parents: BTreeSet<String> = (0..count).map(|_| self.rng.pick(&nodes)).collect();
                let set: Vec<String> =
                    parents.iter().map(|parent| format!("[\"uuid\", \"{parent}\"]")).collect();
                graph.0.insert(node.clone(), (name, parents));
                format!(
                    "{{\"op\": \"update\", {}, \"row\": {{\"parents\": [\"set\", [{}]]}}}}",
                    row(&node),
                    set.join(", ")
                )
            }
            8 => {
                graph.0.remove(&node);
                for (_, parents) in graph.0.values_mut() {
                    parents.remove(&node);
                }
                format!("{{\"op\": \"delete\", {}}}", row(&node))
            }
            _ => {
                let other = self.rng.pick_any(&free)?;
                let uuid = paceline_types::UuidSource::from_number(self.rng.next()).next_uuid();
                let parents: BTreeSet<String> = BTreeSet::from([node.clone()]);
                graph.0.insert(uuid.to_string(), (other.to_owned(), parents));
                format!(
                    "{{\"op\": \"insert\", \"table\": \"Resource\", \"uuid\": \"{uuid}\", \"row\": \
                     {{\"name\": \"{other}\", \"persistent\": true, \"parents\": [\"uuid\", \"{node}\"]}}}}"
                )
            }
        };
        self.model.graphs.ask(graph);
        Some(operation)
    }

    fn edit_limit(&mut self) -> Option<String> {
        let limit = self.rng.between(1, 3);
        self.model.limits.ask(limit);
        Some(format!(
            "{{\"op\": \"update\", \"table\": \"Checkpoint\", \"where\": [], \"row\": {{\"concurrency\": {limit}}}}}"
        ))
    }

    fn edit_roles(&mut self) -> Option<String> {
        let user = self.rng.pick(&USERS);
        let mut roles = self.roles.told().clone();
        let role = self.rng.pick(&["viewer", "client", "operator", "admin", ""]);
        let operation = match (roles.contains_key(user), role) {
            (true, "") => {
                roles.remove(user);
                format!(
                    "{{\"op\": \"delete\", \"table\": \"User\", \"where\": [[\"name\", \"==\", \"{user}\"]]}}"
                )
            }
            (true, role) => {
                roles.insert(user.to_owned(), role.to_owned());
                format!(
                    "{{\"op\": \"update\", \"table\": \"User\", \"where\": [[\"name\", \"==\", \"{user}\"]], \
                     \"row\": {{\"role\": \"{role}\"}}}}"
                )
            }
            (false, "") => return None,
            (false, role) => {
                roles.insert(user.to_owned(), role.to_owned());
                format!(
                    "{{\"op\": \"insert\", \"table\": \"User\", \"row\": {{\"name\": \"{user}\", \"role\": \"{role}\"}}}}"
                )
            }
        };
        // What a user holds through its connections ends only when its role may hold nothing any more.
        if !matches!(role, "client" | "operator" | "admin") {
            let bound = self.model.sessions.iter();
            let bound = bound.filter(|(_, s)| s.user == user && s.process.is_some());
            let bound: Vec<String> = bound.map(|(key, _)| key.clone()).collect();
            bound.iter().for_each(|key| self.model.doubt_session(key));
        }
        self.roles.ask(roles);
        Some(operation)
    }

    fn edit_tokens(&mut self) -> Option<String> {
        let tokens: Vec<u64> = self.tokens.keys().copied().collect();
        if self.rng.chance(50)
            && let Some(token) = self.rng.pick_any(&tokens)
        {
            self.tokens.remove(&token);
            return Some(format!(
                "{{\"op\": \"delete\", \"table\": \"Token\", \"where\": [[\"name\", \"==\", \"t{token}\"]]}}"
            ));
        }
        let token = self.next;
        self.next += 1;
        let hash: String = token_hash(token).iter().map(|byte| format!("{byte:02x}")).collect();
        let now_ms = self.daemon().ok()?.host.clock().wall_ms();
        let expires = match self.rng.chance(50) {
            true => format!(", \"expires\": {}", now_ms + self.rng.below(3_000)),
            false => String::new(),
        };
        let user = self.rng.pick(&USERS);
        self.tokens.insert(token, None);
        Some(format!(
            "{{\"op\": \"insert\", \"table\": \"Token\", \"row\": {{\"name\": \"t{token}\", \"hash\": \"{hash}\", \
             \"role\": \"client\", \"user\": \"{user}\", \"created\": {now_ms}{expires}}}}}"
        ))
    }
}

/// The hash of a token.
pub(super) fn token_hash(token: u64) -> [u8; 32] {
    std::array::from_fn(|index| (token >> (index % 8 * 8)) as u8 ^ index as u8)
}
