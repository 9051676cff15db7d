use super::*;
use crate::Posting;

fn run(segment: u64, low: u64, high: u64) -> Run {
    Run { segment, low, high }
}

#[test]
fn positions_are_as_few_runs_as_can_be_whatever_their_order() {
    assert_eq!(runs(&[]), []);
    assert_eq!(runs(&[7, 5, 6, 6, 9]), [run(0, 5, 7), run(0, 9, 9)]);
    let all: Vec<_> = (1000..4000).rev().collect();
    assert_eq!(runs(&all), [run(0, 1000, 1023), run(1, 0, 1023), run(2, 0, 1023), run(3, 0, 927)]);
    assert_eq!(runs(&[u64::MAX, u64::MAX - 1, 0]), [run(0, 0, 0), run(u64::MAX / 1024, 1022, 1023)]);
}

#[test]
fn an_answer_is_cut_where_it_is_too_long_whatever_was_noted() {
    let extent = IndexExtent { next: 1 << 40, documents: 3 };
    let mut found = Matches::new(extent, 0, 1);
    assert_eq!(found.first, (1 << 40) - MAX_NEWEST, "a store can't have more in memory than that");
    for position in [0, (1 << 40) - 3, (1 << 40) - 3, (1 << 40) - 4, (1 << 40) - 1, 1 << 40, u64::MAX] {
        found.mark(position, 5);
        found.occurs(0, position);
        found.occurs(9, position);
    }
    let found = found.finish(14);
    assert_eq!((found.first, &*found.marks), ((1 << 40) - 3, &[5, 0, 5][..]));
    assert_eq!(found.terms[0].offsets, [0, 2]);
}

#[cfg(feature = "directory")]
#[test]
fn what_is_written_of_documents_is_read_and_cut_again() {
    use segments::{Field, MARK, OCCURRENCE, Sought, appended, cut};

    let document = |position, mark, terms: &[u32]| Posting { position, mark, terms: terms.to_vec() };
    let documents =
        [document(5, 1, &[0, 255, 256]), document(1023, u16::MAX, &[256, TERMS - 1]), document(1024, 3, &[256])];
    let mut fields = appended(&documents);
    let names: Vec<_> = fields.iter().map(|(field, _)| field.name()).collect();
    assert_eq!(names, ["0", "0:00", "0:ff", "1", "1:00"]);
    let terms = [256, TERMS - 1, 255, 1, 0];
    let look = |fields: &[(Field, Vec<u8>)]| {
        let sought = Sought::new(&terms);
        let mut found = Matches::new(IndexExtent { next: 1025, documents: 3 }, 0, terms.len());
        for segment in 0..2 {
            let bytes =
                |shard| fields.iter().find(|(field, _)| *field == Field { segment, shard }).map(|(_, bytes)| bytes);
            let shards: Vec<_> = sought.shards().map(|shard| bytes(Some(shard))).collect();
            sought.note(segment, bytes(None).unwrap(), &shards, &mut found);
        }
        let found = found.finish(u64::MAX);
        let offsets: Vec<_> = found.terms.into_iter().map(|term| term.offsets).collect();
        (found.marks[5], found.marks[1023], found.marks[1024], offsets)
    };
    let all = [vec![5, 1023, 1024], vec![1023], vec![5], vec![], vec![5]];
    assert_eq!(look(&fields), (1, u16::MAX, 3, all.to_vec()));
    let mut gone = 0;
    for (field, bytes) in fields.iter_mut().filter(|(field, _)| field.segment == 0) {
        let width = if field.shard.is_none() { MARK } else { OCCURRENCE };
        gone += cut(bytes, width, &[run(0, 0, 4), run(0, 5, 5), run(0, 7, 1022)]);
    }
    assert_eq!(gone, 4);
    assert_eq!(look(&fields), (0, u16::MAX, 3, vec![vec![1023, 1024], vec![1023], vec![], vec![], vec![]]));
}

#[cfg(feature = "directory")]
#[test]
fn a_field_has_one_name() {
    use segments::Field;

    for field in [Field { segment: 0, shard: None }, Field { segment: (1 << 43) - 1, shard: Some(0xa0) }] {
        assert_eq!(Field::named(&field.name()), Some(field));
    }
    for name in ["", "x", "-1", "+1", "01", "1:", "1:0", "1:0A", "1:100", "1:00 ", "1:00:00", "8796093022208"] {
        assert_eq!(Field::named(name), None, "{name}");
    }
}
