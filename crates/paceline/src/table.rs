//! Tables without borders, that fit the screen.
//!
//! Numbers are never cut. Texts are, with an ellipsis, down to a minimum; if that is not enough the least
//! important columns are omitted (`--json` has everything).

use crate::screen::{Screen, Style, clean, cut, width};

/// Blanks between two columns.
const GAP: usize = 2;

/// One column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    name: &'static str,
    /// The fewest columns a text is cut to; `None` if it must not be cut.
    cut_to: Option<usize>,
    /// Whether it is right-aligned, as numbers are.
    is_right: bool,
    /// Columns with higher values are omitted first.
    spare: u8,
}

impl Column {
    /// A text that may be cut.
    pub const fn text(name: &'static str, cut_to: usize) -> Self {
        Self { name, cut_to: Some(cut_to), is_right: false, spare: 0 }
    }

    /// A short word that must not be cut.
    pub const fn word(name: &'static str) -> Self {
        Self { name, cut_to: None, is_right: false, spare: 0 }
    }

    /// A number.
    pub const fn number(name: &'static str) -> Self {
        Self { name, cut_to: None, is_right: true, spare: 0 }
    }

    /// The same column; the higher `spare`, the sooner it is omitted.
    pub const fn spare(mut self, spare: u8) -> Self {
        self.spare = spare;
        self
    }
}

/// One entry.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    /// An entry in this style.
    pub fn new(text: impl Into<String>, style: Style) -> Self {
        Self { text: clean(&text.into()), style }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(text, Style::Plain)
    }
}

/// A table.
#[derive(Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub fn new(columns: &[Column]) -> Self {
        Self { columns: columns.to_vec(), rows: vec![] }
    }

    /// Adds a row, with an entry for each column.
    pub fn row(&mut self, cells: Vec<Cell>) {
        debug_assert_eq!(cells.len(), self.columns.len(), "an entry for each column");
        self.rows.push(cells);
    }

    /// The lines, each with a newline.
    pub fn draw(&self, screen: Screen) -> String {
        let mut kept: Vec<usize> = (0..self.columns.len()).collect();
        let widths = loop {
            match self.fit(&kept, screen.width) {
                Ok(widths) => break widths,
                Err(widths) if kept.len() <= 1 => break widths,
                Err(_) => self.leave_one_out(&mut kept),
            }
        };
        let head = |place: &usize| {
            let name = self.columns.get(*place).map_or("", |column| column.name);
            Cell::new(name, Style::Head)
        };
        let mut out = self.line(screen, &kept, &widths, head);
        for row in &self.rows {
            let cell = |place: &usize| row.get(*place).cloned().unwrap_or_default();
            out.push_str(&self.line(screen, &kept, &widths, cell));
        }
        out
    }

    /// The widths of the columns that are kept; as an error if they are too wide together.
    fn fit(&self, kept: &[usize], screen: usize) -> Result<Vec<usize>, Vec<usize>> {
        let columns: Vec<&Column> = kept.iter().filter_map(|i| self.columns.get(*i)).collect();
        let natural = |place: &usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(*place));
            let head = self.columns.get(*place).map_or(0, |column| width(column.name));
            cells.map(|cell| width(&cell.text)).max().unwrap_or(0).max(head)
        };
        let mut widths: Vec<usize> = kept.iter().map(natural).collect();
        let gaps = GAP * kept.len().saturating_sub(1);
        loop {
            let total = widths.iter().sum::<usize>() + gaps;
            if total <= screen {
                return Ok(widths);
            }
            let can_shrink = widths.iter_mut().zip(&columns).filter_map(|(width, column)| {
                let least = column.cut_to?;
                (*width > least).then_some((width, least))
            });
            match can_shrink.max_by_key(|(width, _)| **width) {
                Some((width, least)) => {
                    // One step at a time keeps columns even; an overlong one shrinks by as much as it can at
                    // once.
                    let excess = total - screen;
                    let step = if *width > screen { excess.min(*width - screen) } else { 1 };
                    *width = width.saturating_sub(step).max(least);
                }
                None => return Err(widths),
            }
        }
    }

    fn leave_one_out(&self, kept: &mut Vec<usize>) {
        let spare = |place: &usize| self.columns.get(*place).map_or(0, |column| column.spare);
        let most = kept.iter().enumerate().max_by_key(|(_, place)| spare(place));
        if let Some(index) = most.map(|(index, _)| index) {
            kept.remove(index);
        }
    }

    fn line(
        &self,
        screen: Screen,
        kept: &[usize],
        widths: &[usize],
        cell: impl Fn(&usize) -> Cell,
    ) -> String {
        let mut out = String::new();
        let mut blanks = 0;
        for (place, max) in kept.iter().zip(widths) {
            let cell = cell(place);
            let text = cut(&cell.text, (*max).min(screen.width));
            let padding = max.saturating_sub(width(&text));
            let is_right = self.columns.get(*place).is_some_and(|column| column.is_right);
            if is_right {
                blanks += padding;
            }
            if !text.is_empty() {
                out.push_str(&" ".repeat(blanks));
                out.push_str(&screen.paint(cell.style, &text));
                blanks = 0;
            }
            blanks += GAP + if is_right { 0 } else { padding };
        }
        out.push('\n');
        out
    }
}

#[cfg(test)]
mod tests {
    use super::{Cell, Column, Table};
    use crate::screen::{Screen, Style, width};

    fn table() -> Table {
        let mut table = Table::new(&[
            Column::number("ID"),
            Column::text("USER", 4),
            Column::word("STATE").spare(1),
            Column::text("TEXT", 6),
        ]);
        let state = Cell::new("waiting", Style::Wait);
        table.row(vec!["7".into(), "etl-nightly".into(), state, "select * from orders".into()]);
        table.row(vec!["1234".into(), "".into(), "".into(), "日本語日本語日本語".into()]);
        table
    }

    fn draw(width: usize) -> String {
        table().draw(Screen { width, colours: false })
    }

    #[test]
    fn columns_stand_in_line() {
        assert_eq!(
            draw(80),
            "  ID  USER         STATE    TEXT\n\
             \x20  7  etl-nightly  waiting  select * from orders\n\
             1234                        日本語日本語日本語\n"
        );
    }

    #[test]
    fn no_line_is_wider_than_the_screen() {
        for screen in 20..90 {
            for line in draw(screen).lines() {
                assert!(width(line) <= screen, "{screen}: {line:?}");
            }
        }
    }

    #[test]
    fn texts_are_cut_before_columns_go_and_numbers_stay_whole() {
        assert_eq!(draw(30).lines().nth(1), Some("   7  etl-ni…  waiting  selec…"));
        let narrow = draw(20);
        assert_eq!(narrow.lines().next(), Some("  ID  USER    TEXT"));
        assert_eq!(narrow.lines().nth(1), Some("   7  etl-n…  selec…"));
        assert!(narrow.contains("1234"));
    }

    #[test]
    fn colours_do_not_move_columns() {
        let colours = table().draw(Screen { width: 80, colours: true });
        let mut plain = colours.clone();
        for code in ["\x1b[1m", "\x1b[33m", "\x1b[0m"] {
            assert!(plain.contains(code));
            plain = plain.replace(code, "");
        }
        assert_eq!(plain, draw(80));
    }
}
