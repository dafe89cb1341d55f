// SPDX-License-Identifier: MIT OR Apache-2.0
//! Made tables, in each of the orders that kernels have had.

use super::*;

const NUMBER: usize = 1100;
const DATA: u64 = 0xffff_ffff_8200_0000;
const TEXT: u64 = 0xffff_ffff_8100_0000;

/// Where addresses stand, and what they are relative to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Order {
    /// Before the names, below a base or absolute.
    Before,
    /// Behind the tokens, below a base or absolute.
    Behind,
    /// Behind the tokens, above a base.
    Above,
    /// Behind the tokens, from the places where they stand.
    Places,
}

fn name(number: usize) -> String {
    format!("name_{number:04}")
}

fn address(number: usize) -> u64 {
    TEXT + 16 * number as u64
}

/// Data with a table behind some other bytes.
fn data(order: Order) -> Vec<u8> {
    let align = if order == Order::Places { 4 } else { 8 };
    let mut data = vec![0x41; 64];
    let pad = |data: &mut Vec<u8>| data.resize(data.len().next_multiple_of(align), 0);
    let based = |data: &mut Vec<u8>| {
        for number in 0..NUMBER {
            let distance = (address(number) - TEXT) as i32;
            let offset = if order == Order::Above {
                distance
            } else {
                -1 - distance
            };
            data.extend(offset.to_le_bytes());
        }
        data.resize(data.len().next_multiple_of(8), 0);
        data.extend(TEXT.to_le_bytes());
    };
    if order == Order::Before {
        based(&mut data);
    }
    data.extend((NUMBER as u32).to_le_bytes());
    pad(&mut data);
    let begin = data.len();
    let mut marks = Vec::new();
    for number in 0..NUMBER {
        if number % MARKED == 0 {
            marks.extend(((data.len() - begin) as u32).to_le_bytes());
        }
        let text = format!("T{}", name(number));
        data.push(text.len() as u8);
        data.extend(text.as_bytes());
    }
    pad(&mut data);
    data.extend(marks);
    pad(&mut data);
    // Each character is a token, and other bytes are no part of a name.
    let (tokens, mut index) = (data.len(), Vec::new());
    for byte in 0..=u8::MAX {
        index.extend(((data.len() - tokens) as u16).to_le_bytes());
        data.extend((byte.is_ascii_graphic()).then_some(byte));
        data.push(0);
    }
    pad(&mut data);
    data.extend(index);
    pad(&mut data);
    match order {
        Order::Before => {}
        Order::Behind | Order::Above => based(&mut data),
        Order::Places => {
            for number in 0..NUMBER {
                let place = DATA + data.len() as u64;
                let offset = address(number).wrapping_sub(place) as i32;
                data.extend(offset.to_le_bytes());
            }
        }
    }
    data.extend([0; 64]);
    data
}

#[test]
fn tables_of_all_orders_are_read() {
    for order in [Order::Before, Order::Behind, Order::Above, Order::Places] {
        let found = read(&data(order), DATA).unwrap_or_else(|error| panic!("{order:?}: {error}"));
        assert_eq!(found.len(), NUMBER, "{order:?}");
        for (number, entry) in found.iter().enumerate() {
            let symbol = &entry.symbol;
            assert_eq!((entry.kind, symbol.is_global), ('T', true));
            assert_eq!(symbol.name, name(number));
            assert_eq!(symbol.address, address(number), "{order:?}, {number}");
        }
    }
}

#[test]
fn data_without_a_table_are_refused() {
    let whole = data(Order::Places);
    for part in [&whole[..whole.len() / 2], &[0; 4096], b""] {
        assert!(read(part, DATA).is_err());
    }
    // Relative to somewhere else the addresses are not the kernel's.
    assert!(read(&whole, 1 << 32).is_err());
}
