//! Two claims conflict exactly when their sub-trees meet, unless both are shared: on random graphs.

use crate::model::{Model, name};
use crate::random::Random;
use crate::{claim, rank};
use paceline_claims::{Blocked, Claims, Graph};
use paceline_types::{Mode, RequestId};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A graph of up to 40 resources whose edges lead from lower to higher numbers.
fn random_model(random: &mut Random) -> Model {
    let mut model = Model::default();
    let density = 1 + random.below(4);
    for id in 0..1 + random.below(40) {
        let count = random.below(density + 1).min(id);
        let parents: BTreeSet<_> = (0..count).map(|_| random.below(id)).collect();
        model.resources.insert(id, (name(id), parents));
    }
    let resources = std::mem::take(&mut model.resources);
    model.edit(resources);
    model
}

/// C1.
#[test]
fn conflict_is_sub_trees_that_meet() {
    let mut met = 0;
    for seed in 0..1_500 {
        let mut random = Random::new(seed);
        let model = random_model(&mut random);
        let mut claims = Claims::new();
        let graph = Arc::new(Graph::build(Some(claims.graph()), model.list()).unwrap());
        claims.configure(Arc::clone(&graph));
        claims.step(1_000);
        let size = model.resources.len() as u64;
        let some = |random: &mut Random| -> Vec<(String, Mode)> {
            let mode = |shared| if shared { Mode::Shared } else { Mode::Exclusive };
            let count = 1 + random.below(3);
            (0..count).map(|_| (name(random.below(size)), mode(random.chance(40)))).collect()
        };
        for id in 0..30 {
            let (one, two) = (some(&mut random), some(&mut random));
            let wanted = |list: &[(String, Mode)]| {
                let list: Vec<_> = list.iter().map(|(name, mode)| claim(name, *mode)).collect();
                graph.resolve(&list).unwrap()
            };
            claims.take_at_once(RequestId(id), rank(id, id), None, wanted(&one));
            let result = claims.check(&mut wanted(&two), rank(100, 100));
            let expected = model.conflict(&model.resolve(&one), &model.resolve(&two));
            let by = Blocked::By { id: RequestId(id), is_held: true };
            let expected = if expected { Err(by) } else { Ok(()) };
            assert_eq!(result, expected, "seed {seed}: {one:?} {two:?}");
            met += u32::from(expected.is_err());
            claims.remove(RequestId(id));
        }
    }
    assert!((10_000..40_000).contains(&met), "both answers were met: {met}");
}
