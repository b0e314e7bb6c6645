//! Random messages of a client.

use super::Dice;
use crate::wire::frontend::{self, BindNames, Execute, Object, Target};
use std::collections::VecDeque;

pub type Script = VecDeque<Vec<u8>>;

fn one(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = vec![];
    write(&mut out);
    out
}

/// A statement of client `id`, which uses its own keys only.
fn text(dice: &mut Dice, id: usize) -> String {
    let key = dice.roll(3);
    match dice.roll(24) {
        0..=6 => format!("put c{id}k{key} {}", dice.roll(1000)),
        7..=11 => format!("get c{id}k{key}"),
        12 | 13 => "BEGIN".into(),
        14 => "BEGIN READ ONLY".into(),
        15 | 16 => "COMMIT".into(),
        17 => "ROLLBACK".into(),
        18 => "fail".into(),
        19 => "session".into(),
        20 => format!("SET application_name = 'a{}'", dice.roll(3)),
        21 => format!("copyout c{id}k{key}"),
        22 => match dice.roll(4) {
            0 => "LISTEN x".into(),
            1 => "DISCARD ALL".into(),
            2 => "DEALLOCATE ALL".into(),
            _ => format!("DEALLOCATE {}", dice.pick(&["s1", "s2"])),
        },
        _ => "badparse".into(),
    }
}

fn query(dice: &mut Dice, id: usize) -> Vec<u8> {
    let mut whole = text(dice, id);
    while dice.roll(4) == 0 {
        let more = text(dice, id);
        let is_alone = |text: &str| text.contains("ALL") || text.starts_with("DEALLOCATE");
        if is_alone(&more) || is_alone(&whole) {
            break;
        }
        whole = format!("{whole}; {more}");
    }
    one(|out| frontend::query(out, whole.as_bytes()))
}

fn name<'a>(dice: &mut Dice) -> &'a [u8] {
    dice.pick(&["", "", "s1", "s2", "s3"]).as_bytes()
}

fn portal<'a>(dice: &mut Dice) -> &'a [u8] {
    dice.pick(&["", "", "", "p1"]).as_bytes()
}

fn parse(name: &[u8], text: &str) -> Vec<u8> {
    one(|out| frontend::parse(out, name, text.as_bytes(), []))
}

fn bind(portal: &[u8], statement: &[u8]) -> Vec<u8> {
    one(|out| frontend::bind(out, BindNames { portal, statement }, [], [], []))
}

fn execute(portal: &[u8]) -> Vec<u8> {
    one(|out| frontend::execute(out, Execute { portal, rows: 0 }))
}

fn describe(object: Object, name: &[u8]) -> Vec<u8> {
    one(|out| frontend::describe(out, Target { object, name }))
}

/// Some messages of the extended protocol without a Sync.
fn messages(dice: &mut Dice, id: usize, script: &mut Script) {
    match dice.roll(9) {
        0..=2 => {
            let (name, portal) = (name(dice), portal(dice));
            script.push_back(parse(name, &text(dice, id)));
            script.push_back(bind(portal, name));
            if dice.roll(2) == 0 {
                script.push_back(describe(Object::Portal, portal));
            }
            script.push_back(execute(portal));
        }
        3 | 4 => {
            let portal = portal(dice);
            script.push_back(bind(portal, name(dice)));
            script.push_back(execute(portal));
        }
        5 => script.push_back(parse(name(dice), &text(dice, id))),
        6 => script.push_back(describe(Object::Statement, name(dice))),
        7 => script.push_back(execute(portal(dice))),
        _ => {
            let target = match dice.roll(2) {
                0 => Target { object: Object::Statement, name: name(dice) },
                _ => Target { object: Object::Portal, name: portal(dice) },
            };
            script.push_back(one(|out| frontend::close(out, target)));
        }
    }
}

fn batch(dice: &mut Dice, id: usize, script: &mut Script) {
    for _ in 0..dice.roll(4) {
        messages(dice, id, script);
        if dice.roll(6) == 0 {
            script.push_back(one(frontend::flush));
        }
    }
    script.push_back(one(frontend::sync));
}

/// COPY, whose data is sent whether the server wants it or not.
fn copy(dice: &mut Dice, id: usize, script: &mut Script) {
    let text = format!("copyin c{id}k{}", dice.roll(3));
    let is_extended = dice.roll(2) == 0;
    if is_extended {
        script.push_back(parse(b"", &text));
        script.push_back(bind(b"", b""));
        script.push_back(execute(b""));
        script.push_back(one(frontend::sync));
    } else {
        script.push_back(one(|out| frontend::query(out, text.as_bytes())));
    }
    for _ in 0..dice.roll(4) {
        let data = dice.pick(&["x", "yy", "z", "!"]);
        script.push_back(one(|out| frontend::copy_data(out, data.as_bytes()).unwrap()));
    }
    match dice.roll(4) {
        0 => script.push_back(one(|out| frontend::copy_fail(out, b"no"))),
        _ => script.push_back(one(frontend::copy_done)),
    }
    if is_extended {
        script.push_back(one(frontend::sync));
    }
}

/// What a client wants to do, in order.
pub fn script(dice: &mut Dice, id: usize) -> Script {
    let mut script = Script::new();
    for _ in 0..=dice.roll(6) {
        match dice.roll(8) {
            0..=2 => script.push_back(query(dice, id)),
            3 => copy(dice, id, &mut script),
            _ => batch(dice, id, &mut script),
        }
    }
    // A statement of COPY that a batch has run without sending data must end, too.
    script.push_back(one(frontend::copy_done));
    script.push_back(one(frontend::sync));
    script
}
