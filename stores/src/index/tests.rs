use super::*;
#[cfg(feature = "directory")]
use crate::Document;

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

fn search(terms: usize, around: u32, max_bytes: u64) -> SearchStep {
    SearchStep { index: "i".into(), terms: vec![0; terms], newest: u64::MAX, around, max_bytes }
}

fn runs(found: &FoundDocuments) -> Vec<(u32, usize)> {
    found.runs.iter().map(|run| (run.offset, run.marks.len())).collect()
}

#[test]
fn a_search_returns_hits_and_what_is_around_them() {
    let extent = IndexExtent { next: 100, documents: 50, occurrences: 50 };
    let collect = |around| {
        let mut hits = HitCollector::new(extent, &search(2, around, u64::MAX));
        [1, 30, 34, 99].into_iter().for_each(|position| hits.record(0, position));
        [30, 50].into_iter().for_each(|position| hits.record(1, position));
        hits.finish()
    };
    let found = collect(2);
    assert_eq!((found.from_position, runs(&found)), (0, vec![(0, 4), (28, 9), (48, 5), (97, 3)]));
    assert_eq!(found.terms[0].offsets, [1, 30, 34, 99]);
    assert_eq!(found.terms[1].offsets, [30, 50]);
    assert_eq!(runs(&collect(0)), [(1, 1), (30, 1), (34, 1), (50, 1), (99, 1)]);
    assert_eq!(runs(&collect(1000)), runs(&collect(MAX_AROUND)), "a larger limit counts as the store's");
}

#[test]
fn a_search_answer_over_its_byte_limit_loses_its_oldest_hits() {
    let extent = IndexExtent { next: 1 << 40, documents: 3, occurrences: 6 };
    let begin = (1 << 40) - MAX_NEWEST;
    let collect = |max_bytes| {
        let mut hits = HitCollector::new(extent, &search(1, 1, max_bytes));
        assert_eq!(hits.oldest_position(), begin, "a store can't have more in memory than that");
        for position in [0, begin + 10, begin + 11, begin + 11, begin + 12, begin + 1000, 1 << 40, u64::MAX] {
            hits.record(0, position);
            hits.record(9, position);
        }
        hits.finish()
    };
    let all = 4 * 4 + 8 + 2 * 5 + 8 + 2 * 3;
    // The last one before those that are left out, the runs, and the hits.
    for (max_bytes, from, lengths, offsets) in [
        (all, 0, vec![(9, 5), (999, 3)], vec![10, 11, 12, 1000]),
        (all - 1, 10, vec![(0, 4), (989, 3)], vec![0, 1, 2, 990]),
        (all - 2, 10, vec![(0, 4), (989, 3)], vec![0, 1, 2, 990]),
        (all - 3, 11, vec![(0, 3), (988, 3)], vec![0, 1, 989]),
        (4 + 8 + 2 * 3, 13, vec![(986, 3)], vec![987]),
        (4 + 8 + 2 * 2, 1000, vec![(0, 2)], vec![0]),
        (4 + 8 + 2 * 2 - 1, 1001, vec![], vec![]),
        (0, 1001, vec![], vec![]),
    ] {
        let found = collect(max_bytes);
        assert_eq!((found.from_position, runs(&found)), (begin + from, lengths), "{max_bytes}");
        assert_eq!(found.terms[0].offsets, offsets, "{max_bytes}");
    }
}

#[test]
fn marks_are_read_as_far_as_the_index_goes() {
    let extent = IndexExtent { next: 100, documents: 50, occurrences: 0 };
    for (from_position, count, expected) in [
        (10, 20, (10, vec![(0, 20)])),
        (90, 20, (90, vec![(0, 10)])),
        (100, 20, (100, vec![])),
        (10, 0, (100, vec![])),
        (u64::MAX, u32::MAX, (100, vec![])),
    ] {
        let found = marks_to_read(extent, &ReadMarksStep { index: "i".into(), from_position, count });
        assert_eq!((found.from_position, runs(&found)), expected, "{count} from {from_position}");
    }
}

#[cfg(feature = "directory")]
#[test]
fn documents_written_to_segments_can_be_read_and_removed() {
    use segments::{
        IndexField, MARK, OCCURRENCE, SoughtTerms, appended_fields, collect_marks, marked_segments, remove_runs,
    };

    let document = |position, mark, terms: &[u32]| Document { position, mark, terms: terms.to_vec() };
    let documents =
        [document(5, 1, &[0, 255, 256]), document(1023, u16::MAX, &[256, TERMS - 1]), document(1024, 3, &[256])];
    let mut fields = appended_fields(&documents);
    let names: Vec<_> = fields.iter().map(|(field, _)| field.name()).collect();
    assert_eq!(names, ["0", "0:00", "0:ff", "1", "1:00"]);
    let terms = [256, TERMS - 1, 255, 1, 0];
    let look = |fields: &[(IndexField, Vec<u8>)]| {
        let sought = SoughtTerms::new(&terms);
        let extent = IndexExtent { next: 1025, documents: 3, occurrences: 6 };
        let bytes = |segment, shard| {
            fields.iter().find(|(field, _)| *field == IndexField { segment, shard }).map(|(_, bytes)| bytes)
        };
        let mut hits = HitCollector::new(extent, &search(terms.len(), 0, u64::MAX));
        for segment in 0..2 {
            let shards: Vec<_> = sought.shards().map(|shard| bytes(segment, Some(shard))).collect();
            sought.collect_segment(segment, &shards, &mut hits);
        }
        let offsets: Vec<_> = hits.finish().terms.into_iter().map(|term| term.offsets).collect();
        let all = ReadMarksStep { index: "i".into(), from_position: 0, count: u32::MAX };
        let mut found = marks_to_read(extent, &all);
        assert_eq!(marked_segments(&found), [0, 1]);
        for segment in 0..2 {
            collect_marks(segment, bytes(segment, None).unwrap(), &mut found);
        }
        let marks = &found.runs[0].marks;
        (marks[5], marks[1023], marks[1024], offsets)
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
