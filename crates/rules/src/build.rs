//! From steps to a [`Program`]: the last stage of compiling a pattern.
//!
//! Owns the computation of which positions follow which and which characters they take, and the choice of the fastest
//! form for both. Refuses patterns that would take too much time here or when they run.

use crate::classes::CharClass;
use crate::error::Fault;
use crate::program::{
    BEYOND, FIXED_ROWS, INITIAL, JUMPS_MAX, LOOKS, Mask, POSITIONS_MAX, Program, WORK_MAX,
};
use crate::steps::Step;
use crate::takers::Takers;
use regex_syntax::hir::Look;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The cost, in words, of looking a character up in a large class.
const CLASS_WORK: usize = 8;

/// The cost, for each word, of keeping the positions that take a character.
const SCAN_WORK: usize = 2;

/// The cost of a jump in addition to its words.
const JUMP_WORK: usize = 4;

/// The most steps visited and positions listed to find out which positions follow which.
const VISITS_MAX: usize = 1 << 18;

/// The most distances to shift by.
const SHIFTS_MAX: usize = 8;

/// If more positions than this follow a position, they stay together, because other positions have the same followers.
const SHIFTING_MAX: usize = 8;

/// The program of these steps, of which the last one is the match.
pub(crate) fn build(steps: &[Step]) -> Result<Program, Fault> {
    let mut builder = Builder::new(steps)?;
    builder.add_followers()?;
    let looks = builder.add_looks();
    let takers = builder.add_takers();
    let work = builder.work(&takers);
    if work > WORK_MAX {
        return Err(Fault::PatternTooLarge);
    }
    Ok(Program {
        words: builder.words,
        matched: builder.positions.len() - 1,
        anchored: matches!(steps.first(), Some(Step::Look(Look::Start))),
        first: match steps.first() {
            Some(Step::Char(c)) if c.is_ascii() => Some(*c as u8),
            _ => None,
        },
        rows: builder.rows.into(),
        ascii: takers.ascii,
        chars: takers.chars.into(),
        large: takers.large.into(),
        looks: looks.into(),
        shifts: builder.shifts.into(),
        jumps: builder.jumps.into(),
        lands: builder.lands.into(),
        landings: builder.landings.into(),
    })
}

struct Builder<'s> {
    steps: &'s [Step],
    /// The step of each position.
    positions: Vec<u32>,
    /// The position of each step that has one.
    numbers: Vec<u32>,
    words: usize,
    rows: Vec<u64>,
    shifts: Vec<u8>,
    jumps: Vec<Mask>,
    lands: Vec<Mask>,
    landings: Vec<u16>,
    /// How often followers are computed at one place of a text.
    rounds: usize,
    /// Steps that may still be visited.
    visits_left: usize,
}

/// The moves from positions to the positions that follow.
#[derive(Default)]
struct Moves {
    shifts: Vec<u8>,
    /// Positions with the index of a shift.
    shifted: Vec<(usize, usize)>,
    /// Sources, by targets.
    jumps: BTreeMap<Vec<u32>, Vec<u32>>,
}

impl Moves {
    /// Their cost, in words.
    fn work(&self, words: usize) -> usize {
        let jumps = self
            .jumps
            .iter()
            .map(|(to, from)| masks(to, 0).len() + masks(from, 0).len() + JUMP_WORK);
        self.shifts.len() * words + jumps.sum::<usize>()
    }
}

/// Which rows take which characters.
struct TakerRows {
    ascii: Box<[u16; 128]>,
    chars: Vec<(char, u16)>,
    large: Vec<(Arc<CharClass>, u16)>,
}

impl<'s> Builder<'s> {
    fn new(steps: &'s [Step]) -> Result<Self, Fault> {
        let (mut positions, mut numbers) = (vec![], vec![]);
        for (at, step) in steps.iter().enumerate() {
            numbers.push(positions.len() as u32);
            if !matches!(step, Step::Split(..) | Step::Jump(_)) {
                positions.push(at as u32);
            }
        }
        if positions.len() > POSITIONS_MAX {
            return Err(Fault::PatternTooLarge);
        }
        let words = match positions.len().div_ceil(64) {
            3 => 4,
            words => words,
        };
        let rows = vec![0; FIXED_ROWS * words];
        let visits_left = VISITS_MAX;
        Ok(Self {
            steps,
            positions,
            numbers,
            words,
            rows,
            shifts: vec![],
            jumps: vec![],
            lands: vec![],
            landings: vec![],
            rounds: 1,
            visits_left,
        })
    }

    /// The most words that one character of a text costs.
    fn work(&self, takers: &TakerRows) -> usize {
        let jumps = self.landings.len() - 1;
        let masks = self.jumps.len() + self.lands.len();
        let once = self.words * (SCAN_WORK + self.shifts.len()) + jumps * JUMP_WORK + masks;
        once * self.rounds + takers.large.len() * (CLASS_WORK + self.words)
    }

    fn insert(&mut self, row: usize, position: usize) {
        self.rows[row * self.words + position / 64] |= 1 << (position % 64);
    }

    /// Adds a row of these positions.
    fn add_row(&mut self, row: &[u64]) -> u16 {
        self.rows.extend_from_slice(row);
        (self.rows.len() / self.words - 1) as u16
    }

    fn add_followers(&mut self) -> Result<(), Fault> {
        let mut stamps = vec![0; self.steps.len()];
        let mut initial = vec![];
        self.reach(0, 1, &mut stamps, &mut initial)?;
        initial.iter().for_each(|first| self.insert(INITIAL, *first as usize));
        // Positions that continue at the same step share the positions that they reach.
        let (mut lists, mut places) = (vec![], vec![None; self.steps.len()]);
        let mut goes_on = vec![];
        for position in 0..self.positions.len() as u32 - 1 {
            let step = self.after_jumps(self.positions[position as usize] + 1);
            let place = match places[step as usize].clone() {
                Some(place) => place,
                None => {
                    let start = lists.len();
                    self.reach(step, position + 2, &mut stamps, &mut lists)?;
                    places[step as usize].insert(start..lists.len()).clone()
                }
            };
            goes_on.push(place);
        }
        let followers: Vec<&[u32]> = goes_on.into_iter().map(|place| &lists[place]).collect();
        self.count_rounds(&followers);
        self.add_jumps(&followers)
    }

    /// Computes how many conditions can follow each other at one place.
    fn count_rounds(&mut self, followers: &[&[u32]]) {
        // Each end of a text is met once, whatever is between them.
        let is_look = |p: usize| match self.steps[self.positions[p] as usize] {
            Step::Look(look) => !matches!(look, Look::Start | Look::End),
            _ => false,
        };
        let (mut lengths, mut looks, mut longest, mut is_cyclic) =
            (vec![0; followers.len()], 0, 0, false);
        for position in (0..followers.len()).rev().filter(|p| is_look(*p)) {
            let mut length = 0;
            for follower in followers[position].iter().map(|p| *p as usize).filter(|p| is_look(*p))
            {
                is_cyclic |= follower <= position;
                length = length.max(lengths[follower]);
            }
            lengths[position] = length + 1;
            longest = longest.max(length + 1);
            looks += 1;
        }
        // On a cycle, each condition may be followed in a round of its own.
        self.rounds = 1 + if is_cyclic { looks } else { longest };
    }

    /// Chooses the distances to shift by, among the most frequent ones, so that running costs least.
    fn add_jumps(&mut self, followers: &[&[u32]]) -> Result<(), Fault> {
        let mut counts = [0; 64];
        for (position, followers) in followers.iter().enumerate() {
            for follower in followers.iter().take(SHIFTING_MAX) {
                let distance = follower.wrapping_sub(position as u32) as usize;
                counts.get_mut(distance).into_iter().for_each(|count| *count += 1);
            }
        }
        let mut distances: Vec<u8> = (0..64).filter(|at| counts[usize::from(*at)] > 0).collect();
        distances.sort_by_key(|distance| std::cmp::Reverse(counts[usize::from(*distance)]));
        let mut best = self.jumps_beside(&distances[..distances.len().min(1)], followers)?;
        for len in 2..=distances.len().min(SHIFTS_MAX) {
            if best.jumps.is_empty() {
                break;
            }
            let next = self.jumps_beside(&distances[..len], followers)?;
            if next.work(self.words) <= best.work(self.words) {
                best = next;
            }
        }
        self.rows.resize((FIXED_ROWS + best.shifts.len()) * self.words, 0);
        for (position, shift) in best.shifted {
            self.insert(FIXED_ROWS + shift, position);
        }
        if best.jumps.len() > JUMPS_MAX {
            return Err(Fault::PatternTooLarge);
        }
        for (jump, (to, from)) in best.jumps.iter().enumerate() {
            self.landings.push(self.lands.len() as u16);
            self.jumps.extend(masks(from, jump as u8));
            self.lands.extend(masks(to, jump as u8));
        }
        self.landings.push(self.lands.len() as u16);
        self.shifts = best.shifts;
        Ok(())
    }

    /// The jumps that remain with these shifts.
    fn jumps_beside(&mut self, shifts: &[u8], followers: &[&[u32]]) -> Result<Moves, Fault> {
        let mut moves = Moves { shifts: shifts.to_vec(), ..Moves::default() };
        for (position, followers) in followers.iter().enumerate() {
            let left = self.visits_left.checked_sub(followers.len());
            self.visits_left = left.ok_or(Fault::PatternTooLarge)?;
            let shift = |follower: &u32| {
                let distance = follower.wrapping_sub(position as u32);
                shifts.iter().position(|shift| u32::from(*shift) == distance)
            };
            // If many positions follow, they stay together, because other positions have the same followers.
            let shifting = followers.len() <= SHIFTING_MAX;
            let mut rest = vec![];
            for follower in *followers {
                match shift(follower).filter(|_| shifting) {
                    Some(shift) => moves.shifted.push((position, shift)),
                    None => rest.push(*follower),
                }
            }
            if !rest.is_empty() {
                moves.jumps.entry(rest).or_default().push(position as u32);
            }
        }
        Ok(moves)
    }

    fn after_jumps(&self, mut step: u32) -> u32 {
        // A jump leads forward, or back to a split, so this terminates.
        while let Step::Jump(to) = &self.steps[step as usize] {
            step = *to;
        }
        step
    }

    /// Adds the positions that are reached from a step without taking a character, in order.
    fn reach(
        &mut self,
        step: u32,
        stamp: u32,
        stamps: &mut [u32],
        reached: &mut Vec<u32>,
    ) -> Result<(), Fault> {
        let start = reached.len();
        let mut stack = vec![step];
        while let Some(step) = stack.pop() {
            if std::mem::replace(&mut stamps[step as usize], stamp) == stamp {
                continue;
            }
            self.visits_left = self.visits_left.checked_sub(1).ok_or(Fault::PatternTooLarge)?;
            match &self.steps[step as usize] {
                Step::Split(first, second) => stack.extend([*first, *second]),
                Step::Jump(to) => stack.push(*to),
                _ => reached.push(self.numbers[step as usize]),
            }
        }
        reached[start..].sort_unstable();
        Ok(())
    }

    fn add_looks(&mut self) -> Vec<(Look, u16)> {
        let mut found: Vec<(Look, Vec<u64>)> = vec![];
        for (position, step) in self.positions.clone().into_iter().enumerate() {
            let Step::Look(look) = &self.steps[step as usize] else { continue };
            self.insert(LOOKS, position);
            let place = found.iter().position(|(other, _)| other == look).unwrap_or_else(|| {
                found.push((*look, vec![0; self.words]));
                found.len() - 1
            });
            found[place].1[position / 64] |= 1 << (position % 64);
        }
        found.into_iter().map(|(look, row)| (look, self.add_row(&row))).collect()
    }

    fn add_takers(&mut self) -> TakerRows {
        let takers = Takers::new(self.positions.iter().map(|step| &self.steps[*step as usize]));
        let first = self.rows.len() / self.words;
        for (positions, row) in takers.all().zip(first..) {
            self.rows.resize((row + 1) * self.words, 0);
            positions.iter().for_each(|position| self.insert(row, *position as usize));
        }
        for position in takers.beyond {
            self.insert(BEYOND, position as usize);
        }
        let mut next = first as u16..;
        let mut ascii = Box::new([0; 128]);
        for ((mut block, _), row) in takers.ascii.into_iter().zip(&mut next) {
            while block != 0 {
                ascii[block.trailing_zeros() as usize] = row;
                block &= block - 1;
            }
        }
        let chars = takers.chars.into_keys().zip(&mut next).collect();
        let large = takers.large.into_iter().map(|(class, _)| class).zip(&mut next).collect();
        TakerRows { ascii, chars, large }
    }
}

/// The masks of these positions, which are in order.
fn masks(positions: &[u32], jump: u8) -> Vec<Mask> {
    let mut masks: Vec<Mask> = vec![];
    for position in positions {
        let (word, bit) = ((position / 64) as u8, 1 << (position % 64));
        match masks.last_mut() {
            Some(mask) if mask.word == word => mask.positions |= bit,
            _ => masks.push(Mask { positions: bit, word, jump }),
        }
    }
    masks
}
