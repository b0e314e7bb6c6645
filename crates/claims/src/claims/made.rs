//! Nodes for names that no resource has: made by a request that asked for it, or left behind by a deleted
//! resource that is held.
//!
//! Promises that one name has one node for as long as a request claims it, so two requests that claim it find
//! each other. Keys are never reused.

use crate::mark::NodeKey;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct Made {
    keys: BTreeMap<Box<str>, NodeKey>,
    names: BTreeMap<NodeKey, Box<str>>,
    /// How many nodes were made so far.
    count: u64,
}

impl Made {
    /// The node of this name, created if necessary.
    pub fn make(&mut self, name: &str) -> NodeKey {
        if let Some(key) = self.keys.get(name) {
            return *key;
        }
        let key = NodeKey(NodeKey::MADE + self.count);
        self.count += 1;
        self.keys.insert(name.into(), key);
        self.names.insert(key, name.into());
        key
    }

    pub fn find(&self, name: &str) -> Option<NodeKey> {
        // Usually no node is made, and comparing names is slow.
        if self.keys.is_empty() { None } else { self.keys.get(name).copied() }
    }

    pub fn name(&self, key: NodeKey) -> Option<&str> {
        self.names.get(&key).map(|name| &**name)
    }

    pub fn forget(&mut self, key: NodeKey) {
        if let Some(name) = self.names.remove(&key) {
            self.keys.remove(&name);
        }
    }

    pub fn len(&self) -> usize {
        self.names.len()
    }
}
