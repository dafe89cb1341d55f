// SPDX-License-Identifier: MIT OR Apache-2.0
//! How often each byte of code was executed. Blocks may overlap: a jump into a block makes another
//! block, and executions that begin with the jump are counted in that block. So bytes that lie in
//! several blocks were executed as often as all these blocks together.

use jifl_sys::abi::Count;

/// Code of which each byte was executed equally often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Address of its beginning.
    pub from: u64,
    /// Its end, exclusive.
    pub to: u64,
    /// Number of executions.
    pub executed: u64,
}

/// The pieces that blocks cover, in the order of addresses, including pieces that never ran.
pub fn pieces(blocks: &[Count]) -> Vec<Piece> {
    // A mark for each begin and end of a block: its address, and by how much the number of blocks
    // and their executions change there.
    let mut marks: Vec<(u64, i64, i128)> = Vec::new();
    for block in blocks {
        let executed = i128::from(block.executed);
        marks.push((block.orig, 1, executed));
        marks.push((block.orig + u64::from(block.src_len), -1, -executed));
    }
    marks.sort_unstable();
    let (mut depth, mut executed) = (0, 0);
    let mut pieces = Vec::new();
    for (index, (at, more, times)) in marks.iter().enumerate() {
        depth += more;
        executed += times;
        let next = marks.get(index + 1).map_or(*at, |mark| mark.0);
        if depth > 0 && *at < next {
            pieces.push(Piece {
                from: *at,
                to: next,
                executed: executed as u64,
            });
        }
    }
    pieces
}

/// Number of executions of the instruction at an address; `None` if no block contains it.
pub fn executed_at(pieces: &[Piece], at: u64) -> Option<u64> {
    let behind = pieces.partition_point(|piece| piece.from <= at);
    let piece = pieces[..behind].last()?;
    (at < piece.to).then_some(piece.executed)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{AT, block};
    use super::*;

    #[test]
    fn what_lies_in_several_blocks_is_their_sum() {
        let blocks = [
            block(0, 8, 3, 10),
            block(4, 4, 1, 5),
            block(8, 2, 1, 0),
            block(16, 2, 1, 1),
        ];
        let found = pieces(&blocks);
        let shown: Vec<_> = found
            .iter()
            .map(|piece| (piece.from - AT, piece.to - AT, piece.executed))
            .collect();
        assert_eq!(shown, [(0, 4, 10), (4, 8, 15), (8, 10, 0), (16, 18, 1)]);
        assert_eq!(executed_at(&found, AT + 7), Some(15));
        assert_eq!(executed_at(&found, AT + 9), Some(0));
        assert_eq!(executed_at(&found, AT + 12), None);
        assert_eq!(executed_at(&found, AT - 1), None);
        assert!(pieces(&[]).is_empty());
    }
}
