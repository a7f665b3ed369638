//! `media::emulation::id_bitmap`.

use crate::cell::Watched;
use crate::check::check;
use crate::id_bitmap::{give_back, take};
use crate::sync::atomic::AtomicU64;
use loom::sync::Arc;
use loom::thread;

/// All numbers but one are taken for good.
struct Numbers {
    used: [AtomicU64; 1],
    owned: Watched<u32>,
}

fn use_one(numbers: &Numbers) {
    if let Some(number) = take(&numbers.used) {
        assert_eq!(number, 4);
        // It is of whoever has the number.
        numbers.owned.add(1);
        give_back(&numbers.used, number);
    }
}

#[test]
fn id_has_one_owner_who_sees_its_last_use() {
    let name = "models::id_bitmaps::id_has_one_owner_who_sees_its_last_use";
    check(
        name,
        &[
            "match word.compare_exchange(bits, bits | 1 << bit, Acquire, Relaxed) {",
            "used[index / 64].fetch_and(!(1 << (index % 64)), Release);",
            "without used[index / 64].fetch_and(!(1 << (index % 64)), Release);",
        ],
        || {
            let numbers = Arc::new(Numbers {
                used: [AtomicU64::new(!(1 << 3))],
                owned: Watched::new(0),
            });
            let other = numbers.clone();
            let thread = thread::spawn(move || use_one(&other));
            use_one(&numbers);
            thread.join().expect("a thread");
            assert_eq!(take(&numbers.used), Some(4), "given back");
            assert_eq!(take(&numbers.used), None, "all are taken");
        },
    );
}
