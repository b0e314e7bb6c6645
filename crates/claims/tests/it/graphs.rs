//! Mistakes in graphs, and finding names in them.

use crate::random::Random;
use crate::{claim, resource};
use paceline_claims::{Graph, GraphError, ResolveError, Resource, ResourceId};
use paceline_types::{Mode, limits};
use std::sync::Arc;

fn error(resources: Vec<Resource>) -> GraphError {
    Graph::build(None, resources).map(|_| ()).unwrap_err()
}

#[test]
fn every_mistake_has_its_error() {
    let long = "x".repeat(limits::NAME_BYTES_MAX + 1);
    let high = ResourceId::MAX.0 + 1;
    for (resources, expected, text) in [
        (
            vec![resource(1, "a", &[]), resource(2, "a", &[])],
            GraphError::DuplicateName("a".into()),
            "two resources are named \"a\"",
        ),
        (
            vec![resource(1, "a", &[]), resource(1, "b", &[])],
            GraphError::DuplicateId { id: ResourceId(1), resources: ["a".into(), "b".into()] },
            "resources \"a\" and \"b\" have the same number 1",
        ),
        (
            vec![resource(1, "a", &[7])],
            GraphError::UnknownParent { resource: "a".into(), parent: ResourceId(7) },
            "resource \"a\": there is no parent number 7",
        ),
        (
            vec![resource(1, "a", &[]), resource(2, "b", &[1, 1])],
            GraphError::ParentTwice { resource: "b".into(), parent: "a".into() },
            "resource \"b\" names its parent \"a\" twice",
        ),
        (
            vec![resource(3, "", &[])],
            GraphError::NameEmpty(ResourceId(3)),
            "resource number 3 has no name",
        ),
        (
            vec![resource(1, &long, &[])],
            GraphError::NameTooLong(long.as_str().into()),
            "the name has 1025 bytes, at most 1024 are allowed",
        ),
        (
            vec![resource(high, "a", &[])],
            GraphError::IdTooHigh { resource: "a".into(), id: ResourceId(high) },
            "resource \"a\": number 9223372036854775808 is too high",
        ),
        (
            vec![resource(1, "a", &[1])],
            GraphError::Cycle(vec!["a".into()]),
            "resources form a cycle: \"a\" -> \"a\"",
        ),
    ] {
        let error = error(resources);
        assert_eq!(error, expected);
        assert!(error.to_string().contains(text), "{error}");
    }
    assert!(Graph::build(None, vec![resource(ResourceId::MAX.0, "a", &[])]).is_ok());
}

/// The whole cycle is named, each a parent of the next, and no resource that is only connected to it.
#[test]
fn cycles_are_named_in_order() {
    let resources = vec![
        resource(1, "top", &[]),
        resource(2, "a", &[1, 4]),
        resource(3, "b", &[2]),
        resource(4, "c", &[3]),
        resource(5, "below", &[4, 1]),
    ];
    let GraphError::Cycle(names) = error(resources) else { panic!("a cycle") };
    let names: Vec<&str> = names.iter().map(|name| &**name).collect();
    let turned = ["a", "b", "c"].repeat(2);
    assert!(names.len() == 3 && turned.windows(3).any(|part| part == names), "{names:?}");
}

#[test]
fn long_cycles_are_cut_in_the_message() {
    let count = 100_000;
    let all = (0..count).map(|id| resource(id, &format!("r{id}"), &[(id + 1) % count])).collect();
    let error = error(all);
    let GraphError::Cycle(names) = &error else { panic!("a cycle") };
    assert_eq!(names.len() as u64, count);
    let text = error.to_string();
    assert!(text.contains("99968 more -> ") && text.len() < 1_000, "{text}");
}

#[test]
fn edges_are_found_both_ways() {
    let list = vec![resource(5, "a", &[]), resource(3, "b", &[5]), resource(9, "c", &[5, 3])];
    let graph = Graph::build(None, list).unwrap();
    assert_eq!(graph.len(), 3);
    assert!(Graph::empty().is_empty());
    assert_eq!(graph.find("c"), Some(ResourceId(9)));
    assert_eq!(graph.find("d"), None);
    assert_eq!(graph.name(ResourceId(3)), Some("b"));
    assert_eq!(graph.name(ResourceId(4)), None);
    let ids = |list: &[u64]| list.iter().map(|id| ResourceId(*id)).collect::<Vec<_>>();
    assert_eq!(graph.children(ResourceId(5)).collect::<Vec<_>>(), ids(&[3, 9]));
    assert_eq!(graph.parents(ResourceId(9)).collect::<Vec<_>>(), ids(&[3, 5]));
    assert_eq!(graph.children(ResourceId(4)).count(), 0);
    let names: Vec<_> = graph.iter().map(|(_, name)| name).collect();
    assert_eq!(names, ["b", "a", "c"]);
}

#[test]
fn near_names_are_proposed() {
    let names =
        ["dataset:tank", "dataset:tank/home", "disk:/dev/da0", "disk:/dev/da2", "zpool:tank"];
    let list = names.iter().zip(1..).map(|(name, id)| resource(id, name, &[])).collect();
    let graph = Graph::build(None, list).unwrap();
    for (typed, near) in [
        ("dataset:tnak", Some("dataset:tank")),
        ("dataset:tank/hom", Some("dataset:tank/home")),
        ("disk:/dev/da22", Some("disk:/dev/da2")),
        ("idsk:/dev/da0", Some("disk:/dev/da0")),
        ("zpool:tonk", Some("zpool:tank")),
        ("something else", None),
        ("x", None),
    ] {
        assert_eq!(graph.near(typed), near, "{typed}");
    }
    assert_eq!(Graph::empty().near("x"), None);
    assert_eq!(graph.near(&"ä".repeat(2_000)), None);
}

#[test]
fn claims_have_limits() {
    let graph = Arc::new(Graph::empty());
    let many = vec![claim("a", Mode::Shared); limits::CLAIMS_MAX + 1];
    assert_eq!(graph.resolve(&many).unwrap_err(), ResolveError::TooMany(limits::CLAIMS_MAX + 1));
    let wanted = graph.resolve(&many[1..]).unwrap();
    assert!(wanted.unknown().eq(&[claim("a", Mode::Shared)]), "the same name counts once");
    assert_eq!(graph.resolve(&[claim("", Mode::Shared)]).unwrap_err(), ResolveError::NameEmpty);
    let long = claim(&"x".repeat(limits::NAME_BYTES_MAX + 1), Mode::Shared);
    assert_eq!(graph.resolve(&[long]).unwrap_err(), ResolveError::NameTooLong(1_025));
    let two = [claim("a", Mode::Shared), claim("a", Mode::Exclusive)];
    let wanted = graph.resolve(&two).unwrap();
    assert!(wanted.unknown().eq(&[claim("a", Mode::Exclusive)]), "the stronger mode counts");
}

/// The order in which resources are listed does not matter.
#[test]
fn order_does_not_matter() {
    let mut random = Random::new(1);
    let mut list: Vec<_> = (0..50)
        .map(|id| resource(id, &format!("r{id}"), if id == 0 { &[] } else { &[0] }))
        .collect();
    let show = |graph: &Graph| graph.iter().map(|(id, name)| (id, name.to_string())).collect();
    let expected: Vec<_> = show(&Graph::build(None, list.clone()).unwrap());
    for place in (1..list.len()).rev() {
        list.swap(place, random.below(place as u64 + 1) as usize);
    }
    assert_eq!(expected, show(&Graph::build(None, list).unwrap()));
}
