use super::*;
use crate::Posting;

fn run(segment: u64, low: u64, high: u64) -> PositionRun {
    PositionRun { segment, low, high }
}

#[test]
fn positions_in_any_order_become_the_fewest_runs() {
    assert_eq!(group_into_runs(&[]), []);
    assert_eq!(group_into_runs(&[7, 5, 6, 6, 9]), [run(0, 5, 7), run(0, 9, 9)]);
    let all: Vec<_> = (1000..4000).rev().collect();
    assert_eq!(group_into_runs(&all), [run(0, 1000, 1023), run(1, 0, 1023), run(2, 0, 1023), run(3, 0, 927)]);
    assert_eq!(group_into_runs(&[u64::MAX, u64::MAX - 1, 0]), [run(0, 0, 0), run(u64::MAX / 1024, 1022, 1023)]);
}

#[test]
fn an_index_answer_over_its_byte_limit_is_truncated() {
    let extent = IndexExtent { next: 1 << 40, documents: 3 };
    let mut found = MatchCollector::new(extent, 0, 1);
    assert_eq!(found.first, (1 << 40) - MAX_NEWEST, "a store can't have more in memory than that");
    for position in [0, (1 << 40) - 3, (1 << 40) - 3, (1 << 40) - 4, (1 << 40) - 1, 1 << 40, u64::MAX] {
        found.record_mark(position, 5);
        found.record_occurrence(0, position);
        found.record_occurrence(9, position);
    }
    let found = found.finish(14);
    assert_eq!((found.first, &*found.marks), ((1 << 40) - 3, &[5, 0, 5][..]));
    assert_eq!(found.terms[0].offsets, [0, 2]);
}

#[cfg(feature = "directory")]
#[test]
fn documents_written_to_segments_can_be_read_and_removed() {
    use segments::{IndexField, MARK, OCCURRENCE, SoughtTerms, appended_fields, remove_runs};

    let document = |position, mark, terms: &[u32]| Posting { position, mark, terms: terms.to_vec() };
    let documents =
        [document(5, 1, &[0, 255, 256]), document(1023, u16::MAX, &[256, TERMS - 1]), document(1024, 3, &[256])];
    let mut fields = appended_fields(&documents);
    let names: Vec<_> = fields.iter().map(|(field, _)| field.name()).collect();
    assert_eq!(names, ["0", "0:00", "0:ff", "1", "1:00"]);
    let terms = [256, TERMS - 1, 255, 1, 0];
    let look = |fields: &[(IndexField, Vec<u8>)]| {
        let sought = SoughtTerms::new(&terms);
        let mut found = MatchCollector::new(IndexExtent { next: 1025, documents: 3 }, 0, terms.len());
        for segment in 0..2 {
            let bytes = |shard| {
                fields.iter().find(|(field, _)| *field == IndexField { segment, shard }).map(|(_, bytes)| bytes)
            };
            let shards: Vec<_> = sought.shards().map(|shard| bytes(Some(shard))).collect();
            sought.collect_segment(segment, bytes(None).unwrap(), &shards, &mut found);
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
        gone += remove_runs(bytes, width, &[run(0, 0, 4), run(0, 5, 5), run(0, 7, 1022)]);
    }
    assert_eq!(gone, 4);
    assert_eq!(look(&fields), (0, u16::MAX, 3, vec![vec![1023, 1024], vec![1023], vec![], vec![], vec![]]));
}

#[cfg(feature = "directory")]
#[test]
fn a_field_has_one_name() {
    use segments::IndexField;

    for field in [IndexField { segment: 0, shard: None }, IndexField { segment: (1 << 43) - 1, shard: Some(0xa0) }] {
        assert_eq!(IndexField::from_name(&field.name()), Some(field));
    }
    for name in ["", "x", "-1", "+1", "01", "1:", "1:0", "1:0A", "1:100", "1:00 ", "1:00:00", "8796093022208"] {
        assert_eq!(IndexField::from_name(name), None, "{name}");
    }
}
