//! A permit's number is never given to another permit.

use super::{World, leased};
use paceline_journal::disk::Faults;
use paceline_types::{Attributes, Request};

/// P3: permits are named by their numbers, and a client repeats a release until it is answered. If another
/// permit had the number by then, the repeated release would end it.
#[test]
fn a_number_is_not_used_again_after_a_start_on_a_full_disk_p3() {
    let mut world = World::new("numbered");
    world.inject("full-after=0");
    world.kill();
    world.restore();
    world.disk.set(Faults::default());
    // The daemon tries to reserve numbers again only after a while.
    let permit = world.admit(Request::new(Attributes::new()), leased());
    world.written();
    let told = permit.id();
    permit.settle();
    world.written();
    world.kill();
    world.restore();
    let next = world.admit(Request::new(Attributes::new()), leased());
    assert!(next.id() > told, "{:?} comes after {told:?}", next.id());
}
