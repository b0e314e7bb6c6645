//! Flat lists and sets of nodes.
//!
//! Owns [`Lists`], one list of nodes per node in two flat vectors; [`Bits`], a set over all nodes;
//! and [`Seen`], a set that stays small where few nodes are visited. Promises no allocation per node.

/// One list of nodes for every node.
#[derive(Default)]
pub(super) struct Lists {
    ends: Vec<u32>,
    items: Vec<u32>,
}

impl Lists {
    /// The list of one node.
    pub fn of(&self, node: u32) -> &[u32] {
        let node = node as usize;
        let start = if node == 0 { 0 } else { self.ends[node - 1] as usize };
        &self.items[start..self.ends[node] as usize]
    }

    /// Appends the list of the next node.
    pub fn push(&mut self, list: impl Iterator<Item = u32>) {
        self.items.extend(list);
        self.ends.push(self.items.len() as u32);
    }

    /// How many nodes have a list.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// For every node, the nodes whose lists contain it.
    pub fn reversed(&self) -> Self {
        let mut next = vec![0u32; self.len() + 1];
        for item in &self.items {
            next[*item as usize + 1] += 1;
        }
        for index in 1..next.len() {
            next[index] += next[index - 1];
        }
        let ends = next[1..].to_vec();
        let mut items = vec![0; self.items.len()];
        for node in 0..self.len() as u32 {
            for item in self.of(node) {
                let place = &mut next[*item as usize];
                items[*place as usize] = node;
                *place += 1;
            }
        }
        Self { ends, items }
    }

    /// The lists with only the nodes in `keep`.
    pub fn filtered(&self, keep: &Bits) -> Self {
        let mut kept = Self::default();
        for node in 0..self.len() as u32 {
            kept.push(self.of(node).iter().copied().filter(|item| keep.has(*item)));
        }
        kept
    }

    /// Everything that can be reached from `starts`, including `starts`.
    pub fn reach(&self, starts: &[u32]) -> Bits {
        let mut bits = Bits::new(self.len());
        let mut open: Vec<u32> = starts.iter().copied().filter(|node| bits.add(*node)).collect();
        while let Some(node) = open.pop() {
            open.extend(self.of(node).iter().copied().filter(|next| bits.add(*next)));
        }
        bits
    }
}

/// A set of nodes.
#[derive(Default)]
pub(super) struct Bits(Vec<u64>);

impl Bits {
    pub fn new(nodes: usize) -> Self {
        Self(vec![0; nodes.div_ceil(64)])
    }

    /// Adds a node. Returns whether it is new.
    pub fn add(&mut self, node: u32) -> bool {
        let word = &mut self.0[node as usize / 64];
        let bit = 1 << (node % 64);
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    pub fn has(&self, node: u32) -> bool {
        self.0.get(node as usize / 64).is_some_and(|word| word >> (node % 64) & 1 == 1)
    }
}

/// Up to this many nodes are searched one by one.
const FEW: usize = 32;

/// A set of visited nodes: a walk through a large graph that visits few nodes should not allocate for all.
pub(super) struct Seen {
    nodes: usize,
    few: Vec<u32>,
    many: Option<Bits>,
}

impl Seen {
    pub fn new(nodes: usize) -> Self {
        Self { nodes, few: vec![], many: None }
    }

    /// Adds a node. Returns whether it is new.
    pub fn add(&mut self, node: u32) -> bool {
        if let Some(bits) = &mut self.many {
            return bits.add(node);
        }
        if self.few.contains(&node) {
            return false;
        }
        self.few.push(node);
        if self.few.len() > FEW {
            let mut bits = Bits::new(self.nodes);
            for node in self.few.drain(..) {
                bits.add(node);
            }
            self.many = Some(bits);
        }
        true
    }

    pub fn has(&self, node: u32) -> bool {
        self.many.as_ref().map_or_else(|| self.few.contains(&node), |bits| bits.has(node))
    }
}
