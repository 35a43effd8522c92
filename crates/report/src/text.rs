//! Tables and paragraphs in characters, at most [`WIDTH`] wide.

use comfy_table::{CellAlignment, Table, presets};

/// Columns of text at most, whatever the terminal: output that is redirected looks the same.
pub const WIDTH: usize = 80;

/// A table of text in aligned columns.
///
/// A table that is too wide is split into blocks beneath each other. Each block repeats the first columns,
/// by which the rows are known. Long cells of text are folded.
#[derive(Debug, Clone, Default)]
pub struct TextTable {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
    keys: usize,
    texts: usize,
    has_rule: bool,
}

impl TextTable {
    /// A table with this header, whose first column is text and repeated in every block.
    pub fn new(header: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let header = header.into_iter().map(Into::into).collect();
        Self { header, rows: Vec::new(), keys: 1, texts: 1, has_rule: false }
    }

    /// Repeats this number of first columns in every block.
    #[must_use]
    pub fn with_keys(self, keys: usize) -> Self {
        Self { keys, ..self }
    }

    /// Aligns this number of first columns to the left, the others to the right.
    #[must_use]
    pub fn with_texts(self, texts: usize) -> Self {
        Self { texts, ..self }
    }

    /// Draws a line below the header.
    #[must_use]
    pub fn with_rule(self) -> Self {
        Self { has_rule: true, ..self }
    }

    /// Appends a row; it has a cell for each column.
    pub fn push(&mut self, row: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(row.into_iter().map(Into::into).collect());
    }

    /// Returns the lines, without a line end after the last.
    pub fn render(&self) -> String {
        let blocks = self.blocks();
        blocks.iter().map(|columns| self.block(columns)).collect::<Vec<_>>().join("\n\n")
    }

    /// Width of a column without the gap before it.
    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column)).chain([&self.header[column]]);
        let width = |cell: &String| {
            self.cell(column, cell).lines().map(|line| line.chars().count()).max().unwrap_or(0)
        };
        cells.map(width).max().unwrap_or(0)
    }

    /// A cell as it is drawn.
    fn cell(&self, column: usize, text: &str) -> String {
        if column < self.texts { folded_to(TEXT_WIDTH, text, GAP) } else { text.to_owned() }
    }

    /// Columns of each block. A block has at least one column that is no key.
    fn blocks(&self) -> Vec<Vec<usize>> {
        let keys = self.keys.min(self.header.len());
        let key_width: usize = (0..keys).map(|key| self.width(key) + GAP).sum();
        let mut blocks = vec![(0..keys).collect::<Vec<_>>()];
        let mut used = key_width;
        for column in keys..self.header.len() {
            let width = self.width(column) + GAP;
            let has_values = blocks.last().is_some_and(|block| block.len() > keys);
            if has_values && used + width > WIDTH + GAP {
                blocks.push((0..keys).collect());
                used = key_width;
            }
            blocks.last_mut().expect("there is a first block").push(column);
            used += width;
        }
        blocks
    }

    fn block(&self, columns: &[usize]) -> String {
        let cells = |row: &[String]| -> Vec<String> {
            columns
                .iter()
                .map(|column| row.get(*column).map_or_else(String::new, |text| self.cell(*column, text)))
                .collect()
        };
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.add_row(cells(&self.header));
        if self.has_rule {
            table.add_row(columns.iter().map(|column| "─".repeat(self.width(*column))));
        }
        for row in &self.rows {
            table.add_row(cells(row));
        }
        for (index, (column, number)) in table.column_iter_mut().zip(columns).enumerate() {
            column.set_padding(if index == 0 { (0, 0) } else { (GAP as u16, 0) });
            if *number >= self.texts {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        // Lines without blanks at their ends.
        table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
    }
}

/// Blanks between columns.
const GAP: usize = 2;

/// Width from which a cell of text is folded.
const TEXT_WIDTH: usize = 48;

/// Breaks `text` at blanks into lines of at most [`WIDTH`] characters, the later ones indented by `indent`.
/// A percent sign stays with its number, and a longer word keeps its line.
pub fn folded(text: &str, indent: usize) -> String {
    folded_to(WIDTH, text, indent)
}

fn folded_to(width: usize, text: &str, indent: usize) -> String {
    let together = text.replace(" %", "\u{a0}%");
    let mut lines: Vec<String> = Vec::new();
    for word in together.split(' ') {
        let word = word.replace('\u{a0}', " ");
        match lines.last_mut() {
            Some(last) if last.chars().count() + 1 + word.chars().count() <= width => {
                last.push(' ');
                last.push_str(&word);
            }
            Some(_) => lines.push(format!("{:indent$}{word}", "")),
            None => lines.push(word),
        }
    }
    lines.join("\n")
}

/// Lines that begin with `first` and hold the items, two blanks between them; later lines are indented like
/// the first item.
pub(crate) fn listed(first: &str, items: impl IntoIterator<Item = String>) -> String {
    let indent = first.chars().count();
    let mut lines = vec![first.to_owned()];
    for item in items {
        let last = lines.last_mut().expect("there is a first line");
        let used = last.chars().count();
        if used > indent && used + GAP + item.chars().count() > WIDTH {
            lines.push(format!("{:indent$}{item}", ""));
        } else {
            last.push_str(if used > indent { "  " } else { "" });
            last.push_str(&item);
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(columns: usize, width: usize) -> TextTable {
        let mut table = TextTable::new((0..columns).map(|column| format!("c{column}")));
        table.push((0..columns).map(|column| format!("{column:0>width$}")));
        table
    }

    #[test]
    fn wide_table_is_split_into_blocks_with_its_key() {
        let text = table(9, 18).render();
        let blocks: Vec<&str> = text.split("\n\n").collect();
        assert_eq!(blocks.len(), 3, "{text}");
        for block in blocks {
            assert!(block.starts_with("c0 ") && block.contains(&"0".repeat(18)), "{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert!((0..9).all(|column| text.contains(&format!("c{column}"))), "{text}");
    }

    #[test]
    fn table_of_the_width_is_one_block() {
        // Four columns of 18 and three gaps of 2 are 78; with 19 characters in the last, 79.
        let mut full = table(4, 18);
        full.header[3] = "x".repeat(20);
        let text = full.render();
        assert_eq!(text.lines().map(|line| line.chars().count()).max(), Some(WIDTH), "{text}");
        assert_eq!(text.split("\n\n").count(), 1, "{text}");
        full.header[3].push('x');
        assert_eq!(full.render().split("\n\n").count(), 2);
    }

    #[test]
    fn columns_are_aligned_and_ruled() {
        let mut table = TextTable::new(["name", "n"]).with_rule();
        table.push(["a", "10"]);
        table.push(["bbbbb", "9"]);
        assert_eq!(table.render(), "name    n\n─────  ──\na      10\nbbbbb   9");
    }

    #[test]
    fn long_cells_of_text_are_folded() {
        let mut table = TextTable::new(["where", "n"]);
        table.push(["a word ".repeat(12).trim(), "10"]);
        let text = table.render();
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= TEXT_WIDTH + GAP + 2), "{text}");
    }

    #[test]
    fn paragraphs_are_folded_and_percent_signs_stay() {
        let text = folded(&format!("note: {} 5 % and more", "word ".repeat(14).trim()), 2);
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH) && text.contains("5 %"), "{text}");
        assert!(text.lines().nth(1).unwrap().starts_with("  "), "{text}");
        let items = (0..20).map(|index| format!("item {index}"));
        assert!(listed("name  ", items).lines().skip(1).all(|line| line.starts_with("      item")));
    }
}
